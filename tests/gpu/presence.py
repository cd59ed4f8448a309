"""Detects whether this machine contains an NVIDIA GPU, even if CUDA cannot use it."""
import re
from pathlib import Path


def signs_of_a_gpu(root=Path("/")):
    """Returns a list of texts that describe signs of a GPU. The list is empty if there is no sign of a GPU.

    CUDA also finds no device if the driver is too old or if the job may not access the device files. These cases must not count
    as a machine without a GPU."""
    signs = []
    driver = root / "proc/driver/nvidia/version"
    if driver.is_file():
        version = re.search(r"Kernel Module\D*(\d+(?:\.\d+)+)", driver.read_text(errors="replace"))
        signs.append(f"its driver {version[1]} is loaded" if version else "its driver is loaded")
    files = [f.name for f in (root / "dev").glob("nvidia[0-9]*")]
    if files:
        signs.append(f"there is /dev/{min(files)}")
    for device in (root / "sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == "0x10de" and kind.startswith("0x03"):  # a display or 3D controller from NVIDIA
            signs.append(f"{device.name} is one on the PCI bus")
            break
    return signs


def why_it_does_not_answer(said, signs):
    """Returns a message for users: the machine contains a GPU, but CUDA finds none."""
    return (f"a GPU is in this machine ({', '.join(signs)}) but CUDA finds none: {said}. CUDA 13 needs a driver of version 580 "
            "or newer, and this process needs rights to /dev/nvidia*")


def self_test():
    """Checks that signs_of_a_gpu() finds all signs and nothing else. Returns the number of mistakes."""
    import tempfile

    wanted = {
        "nothing": ({}, 0),
        "a driver": ({"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu"}, 1),
        "another text": ({"proc/driver/nvidia/version": "x"}, 1),
        "device files": ({"dev/nvidia1": "", "dev/nvidia0": ""}, 1),
        "control files alone": ({"dev/nvidiactl": ""}, 0),
        "a GPU on the bus": ({"sys/bus/pci/devices/0000:17:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:17:00.0/class": "0x030200\n"}, 1),
        "its audio device": ({"sys/bus/pci/devices/0000:17:00.1/vendor": "0x10de\n", "sys/bus/pci/devices/0000:17:00.1/class": "0x040300\n"}, 0),
        "another maker's": ({"sys/bus/pci/devices/0000:01:00.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n"}, 0),
    }
    mistakes = 0
    for what, (files, count) in wanted.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                file = Path(folder) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            found = signs_of_a_gpu(Path(folder))
        if len(found) != count or (what == "a driver" and "535.129.03" not in found[0]):
            print(f"{what}: found {found}")
            mistakes += 1
    return mistakes
