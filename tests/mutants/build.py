"""How a build compiles and links, so that its programs can be made with one file changed and all else as it is there."""
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

OWN_LIBRARY = re.compile(r"lib(\w+)\.(?:a|so)$")  # of a target: its objects lie in TARGET.dir
TARGET = re.compile(r"CMakeFiles/(\w+)\.dir/")


class Build:
    def __init__(self, folder, root):
        self.folder, self.root = folder, root
        self.linker = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        self.commands = {}  # of an object
        self.objects = {}  # that are compiled of a source
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            command = shlex.split(entry["command"])
            made = os.path.normpath(command[command.index("-o") + 1])
            self.commands[made] = (Path(entry["file"]), command)
            self.objects.setdefault(Path(entry["file"]), []).append(made)
        self.readers = {}  # objects that include a file
        for line in self.ninja("-t", "deps").splitlines():
            if not line.startswith(" "):
                made = line.split(":")[0]
            elif line.strip().startswith(".."):
                self.readers.setdefault((folder / line.strip()).resolve(), []).append(made)

    def ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", str(self.folder), "--quiet", *arguments], check=True, capture_output=True, text=True).stdout

    def link(self, program):
        """The words of the command that makes a program."""
        words = shlex.split(self.ninja("-t", "commands", "-s", program))
        ends = [i for i, word in enumerate(words) if word == "&&"]
        return [os.path.normpath(w) if w.endswith((".o", ".a")) else w for w in words[ends[0] + 1:ends[1]]]

    def changed(self, link, file):
        """Objects that a program is linked from and that are others once the file is."""
        source = self.root / file
        made = self.objects.get(source) or self.readers.get(source, [])
        precompiled = {str(self.folder / o.removesuffix(".gch")) for o in made if o.endswith(".gch")}
        made = {o: None for o in made if o in self.commands and not o.endswith(".gch")}
        made = [*made, *(o for o, (_, words) in self.commands.items() if o not in made and precompiled & set(words))]
        libraries = {m[1] for m in map(OWN_LIBRARY.search, link) if m}
        direct = [o for o in made if o in link]
        # The linker takes nothing from a library that is there already.
        known = {self.commands[o][0] for o in direct}
        return direct + [o for o in made if TARGET.search(o) and TARGET.search(o)[1] in libraries and self.commands[o][0] not in known]

    def compile(self, made, overlay, to):
        """The object with what lies in `overlay`, as below the root, in the place of what is there."""
        source, words = self.commands[made]
        other = overlay / source.relative_to(self.root)
        if not other.exists():  # but a header, which may be among those that are compiled already
            words = [shutil.copy(w, overlay) if w.endswith("cmake_pch.hxx") else w for w in words]
        words = [words[0], f"-I{overlay}", *words[1:], "-w"]  # what a mutant leaves unused is no error
        words[words.index("-o") + 1] = str(to)
        words[words.index("-c") + 1] = str(other if other.exists() else source)
        return words

    def relink(self, link, objects, to):
        """The program with objects of its own, `objects` by those that they replace."""
        words = [str(objects.get(w, w)) for w in link]
        words[words.index("-o") + 1] = str(to)
        first = words.index("-o")
        return words[:first] + self.linker + [str(o) for old, o in objects.items() if old not in link] + words[first:]
