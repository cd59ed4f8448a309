"""How a build compiles and links, so that its programs can be made with one file changed and all else as it is there."""
import functools
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path


class Build:
    def __init__(self, folder, root):
        self.folder, self.root = folder, root
        self.linker = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        self.commands = {}  # of an object: its source and the words
        self.objects = {}  # that are compiled of a source alone
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            command = shlex.split(entry["command"])
            made = os.path.normpath(command[command.index("-o") + 1])
            self.commands[made] = (Path(entry["file"]), command)
            self.objects.setdefault(Path(entry["file"]), []).append(made)
        self.readers = {}  # objects that include a file
        for line in self.ninja("-t", "deps").splitlines():
            if not line.startswith(" "):
                made = line.split(":")[0]
            elif line.strip().startswith(("..", str(root))):
                self.readers.setdefault(Path(os.path.normpath(folder / line.strip())), []).append(made)

    def ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", str(self.folder), "--quiet", *arguments], check=True, capture_output=True, text=True).stdout

    @functools.cache
    def link(self, made):
        """The words of the command that links a program or a library."""
        words = shlex.split(self.ninja("-t", "commands", "-s", made))
        begin = words.index("&&") + 1
        return [os.path.normpath(w) if w.endswith((".o", ".a", ".so")) else w for w in words[begin:words.index("&&", begin)]]

    def own(self, made, ending):
        """Libraries of this build that it is linked from."""
        return [w for w in self.link(made) if w.endswith(ending) and not w.startswith(("/", "-")) and w != made]

    def changed(self, made, file):
        """Objects that it is linked from, shared libraries aside, and that are others once the file is."""
        source = self.root / file
        # Compiled alone for one program, a source may be compiled together with others for another.
        objects = [*self.objects.get(source, []), *self.readers.get(source, [])]
        precompiled = {str(self.folder / o.removesuffix(".gch")) for o in objects if o.endswith(".gch")}
        objects = {o for o in objects if o in self.commands} | {o for o, (_, words) in self.commands.items() if precompiled & set(words)}
        linked = {*self.link(made)}.union(*(self.link(library) for library in self.own(made, ".a")))
        return sorted(objects & linked)

    def compile(self, made, file, overlay, to):
        """The object with what `overlay` has in the place of a file below the root."""
        source, words = self.commands[made]
        if source == self.root / file:
            source = overlay / file
        elif self.folder in source.parents:  # it includes several sources, to be compiled together
            together = overlay / source.name
            together.write_text(source.read_text().replace(f'"{self.root / file}"', f'"{overlay / file}"'))
            source = together
        if not file.endswith((".cpp", ".cu")):  # headers may be compiled already
            words = [shutil.copy(w, overlay) if w.endswith("cmake_pch.hxx") else w for w in words]
        words = [words[0], f"-I{overlay}", *words[1:], "-w"]  # what a mutant leaves unused is no error
        words[words.index("-o") + 1] = str(to)
        words[words.index("-c") + 1] = str(source)
        return words

    def relink(self, made, others, to):
        """It with objects and shared libraries of its own, `others` by those that they replace."""
        old = self.link(made)
        words = [str(others.get(w, w)).replace("-Wl,-rpath,", f"-Wl,-rpath,{to.parent}:") for w in old]
        words[words.index("-o") + 1] = str(to)
        first = words.index("-o")
        # The linker takes nothing from a static library that is there already.
        return words[:first] + self.linker + [str(o) for was, o in others.items() if was not in old] + words[first:]
