#!/usr/bin/env python3
"""Finds pairs of types with one name: a class, struct, union or enum of the same full name, defined in two places.

The compiler sees one source at a time and the linker sees no types: what links both runs the inline functions of one on
objects of the other (C++'s one-definition rule). Names in an anonymous namespace or in a function are their file's own.
All sources count as one program, as tests link what they like.

  tests/odr.py [ROOT]       one line per pair; exit code 1 when there is one
  tests/odr.py --self-test  plants pairs, and what only looks like one
"""
import collections
import pathlib
import re
import tempfile

from checker import main

SOURCE = (".cpp", ".hpp", ".cu", ".cuh", ".h")
TOPS = ("lib", "kernels", "app", "tests")

# What may hold braces without meaning them, and the marks that structure a file.
TOKEN = re.compile(r"""
    //(?:[^\n\\]|\\.)*
  | /\*.*?\*/
  | ^[ \t]*\#(?:[^\n\\/]|/(?!\*)|\\.)*
  | (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"
  | "(?:[^"\\\n]|\\.)*"
  | (?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'
  | (?P<mark>[{};])
""", re.X | re.S | re.M)
NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b(?P<name>.*)$", re.S)
TYPE = re.compile(r"""
    (?:^|\s)(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+
    (?P<name>[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*(?:\s*<.*>)?)
    (?:\s+final)?\s*(?::[^:].*)?$
""", re.X | re.S)


def without_balanced(text, opening, closing):
    """`text` after the balanced bracket that it begins with; what parentheses inside hold does not count."""
    depth = inside = 0
    for i, c in enumerate(text):
        if opening != "(":
            inside += (c == "(") - (c == ")")
        if not inside:
            depth += (c == opening) - (c == closing)
        if depth == 0:
            return text[i + 1:]
    return ""


def declaration(head):
    """The text before a brace, without what may stand before or inside a type's head."""
    head = head.strip()
    while m := re.match(r"template\s*(?=<)|(public|private|protected)\s*:(?!:)", head):
        head = head[m.end():]
        if head.startswith("<"):
            head = without_balanced(head, "<", ">")
        head = head.strip()
    head = re.sub(r"\[\[.*?\]\]", " ", head, flags=re.S)
    while m := re.search(r"\b(alignas|__align__|__attribute__|__launch_bounds__)\s*(?=\()", head):
        head = head[:m.start()] + without_balanced(head[m.end():], "(", ")")
    return head.strip()


class File:
    """The scopes of one file, followed brace by brace."""

    def __init__(self, text):
        self.types = []  # (full name, line)
        self.balanced = True
        # Each open brace: the name that it adds, or None where names are nobody else's.
        scopes, head, at, hidden = [], "", 0, 0
        for m in TOKEN.finditer(text):
            head += text[at:m.start()]
            at = m.end()
            mark = m["mark"]
            if mark is None:
                continue
            if mark == ";":
                head = ""
            elif mark == "}":
                if not scopes:
                    self.balanced = False
                    return
                hidden -= scopes.pop() is None
                head = ""
            else:
                name = None if hidden else self.opened(declaration(head), scopes, text, at)
                hidden += name is None
                scopes.append(name)
                head = ""
        self.balanced = not scopes

    def opened(self, head, scopes, text, at):
        if m := NAMESPACE.match(head):
            return m["name"].strip() or None
        if re.match(r"extern\b", head) and not head[6:].strip():  # "C"
            return ""
        m = TYPE.search(head)
        if not m:
            return None
        name = re.sub(r"\s+", "", m["name"])
        self.types.append(("::".join(s for s in [*scopes, name] if s), 1 + text.count("\n", 0, at)))
        return name


def stand_in(path, other):
    """A file in a folder absent/ replaces files beside that or below; CMake takes one of the two."""
    def absent(p):
        return p.parent.name == "absent"
    a, b = pathlib.PurePosixPath(path), pathlib.PurePosixPath(other)
    return absent(a) and not absent(b) and a.parent.parent in b.parents


def findings(root):
    found, places = [], collections.defaultdict(list)
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCE:
                continue
            name = path.relative_to(root).as_posix()
            file = File(path.read_text(errors="replace"))
            if not file.balanced:
                found.append(f"{name}:1: its braces do not balance for tests/odr.py, so its types are not known")
            for full, line in file.types:
                places[full].append((name, line))
    for full, (first, *others) in sorted(places.items()):
        for path, line in others:
            if not stand_in(path, first[0]) and not stand_in(first[0], path):
                found.append(f"{path}:{line}: {full} is defined at {first[0]}:{first[1]}, too: rename one, or put it into "
                             "an anonymous namespace")
    return found


def self_test():
    # In pairs: a name, and what defines it for a second time.
    pairs = [
        ("lib/a.hpp", "namespace trireme {\nstruct Piece { int a; };\n}",
         "lib/data/a.hpp", "namespace trireme {\nclass Piece final : public B<int> { int a; };\n}"),
        ("lib/b.cpp", "namespace trireme {\nstruct Local { Local() : a{1}, b{2} {} int a, b; };\n}",
         "app/b.cpp", "namespace trireme\n{\nstruct Local\n{ int a; };\n}"),
        ("lib/c.hpp", "namespace trireme {\nenum class Kind : std::uint8_t { a };\n}",
         "kernels/c.cu", "namespace trireme {\n__global__ void k() { f<<<1, 2>>>(); }\nenum Kind { b };\n}"),
        ("lib/d.hpp", "namespace trireme::d { class Outer { struct Inner { int a; }; }; }",
         "tests/d.cpp", 'namespace trireme { namespace d {\nextern "C" {\nstruct Outer::Inner { };\n} } }'),
        ("lib/e.hpp", "namespace trireme { template <class T, int N = (1 < 2)> struct Of<T> { }; }",
         "tests/e.cpp", "namespace trireme { template <class T>\nrequires big<T>\nstruct [[nodiscard]] Of< T > { }; }"),
        ("tests/f.cpp", 'const char* s = R"x({ " )x";\nstruct Free { char c = \'{\'; int n = 1\'000; };',
         "tests/bench/f.cpp", "/* { */ // {\n#define OPEN {\nstruct alignas(64) Free { };"),
        ("kernels/cuda/attention/absent/device.cpp", "namespace trireme { struct Both { }; }",
         "lib/device.cpp", "namespace trireme { union Both { }; }"),
    ]
    alone = {
        # The first of these names are also planted above, where nobody else sees them.
        "tests/hidden.cpp": "namespace trireme { namespace {\nstruct Piece { int b; };\n} }",
        "tests/function.cpp": "namespace trireme { void f() {\n  struct Piece { int b; };\n} }",
        "tests/other.cpp": "namespace trireme::test { struct Piece { int b; }; }",
        "tests/nested.cpp": "namespace trireme { class Mine { struct Piece { int b; }; }; }",
        "tests/says.cpp": "namespace trireme { struct Piece; class Local;\nstruct Piece f(struct Piece p) { return p; } }",
        "tests/special.cpp": "namespace trireme { template <> struct Of<int> { }; }",
        "kernels/cuda/attention/absent/sdpa.cpp": "namespace trireme { struct Plans { }; }",
        "kernels/cuda/attention/cudnn/sdpa.cpp": "namespace trireme { struct Plans { int a; }; }",
    }
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        files = {**alone, "lib/open.cpp": "namespace trireme {"}
        for first, text, second, other in pairs:
            files |= {first: text, second: other}
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text + "\n")
        found = findings(root)
    for first, _, second, _ in pairs:
        about = [f for f in found if f.startswith((first + ":", second + ":"))]
        if len(about) != 1 or first not in about[0] or second not in about[0]:
            print(f"not found: {first} and {second} define one name, got {about}")
            failed += 1
    if sum(f.startswith("lib/open.cpp:1: its braces") for f in found) != 1:
        print("not found: a file whose braces do not balance")
        failed += 1
    if len(found) > len(pairs) + 1:
        print("found without reason, among:", *found, sep="\n")
        failed += 1
    print(f"odr.py: {len(pairs)} pairs planted, {failed} mistakes")
    return 1 if failed else 0


if __name__ == "__main__":
    main(findings, self_test, "odr: no two types share a name")
