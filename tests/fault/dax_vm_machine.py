"""The virtual machine of dax_vm: with an NVDIMM that is a file here, and kvd, which loses power with it."""

import os
import shutil
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vm"))
# pylint: disable-next=wrong-import-position
from virtual_machine import (PATH, PROGRAMS as MACHINE_PROGRAMS, ROOT, Failure, find_kernel as find_any_kernel,
                             make_initrd as make_any_initrd, run, stripped, Machine as AnyMachine)

PROGRAMS = {**MACHINE_PROGRAMS, "ndctl": "ndctl", "mkfs.ext4": "e2fsprogs", "protoc": "protobuf-compiler",
            "grpc_python_plugin": "protobuf-compiler-grpc"}
MODULES = ("virtio_pci", "virtio_net", "ext4", "nfit", "nd_pmem", "crc32c_generic")
DEVICE_MIB, NVM_SIZE, MEMORY = 384, "256MiB", "128MiB"

__all__ = ["DEVICE_MIB", "PATH", "PROGRAMS", "ROOT", "Failure", "Machine", "find_kernel", "make_initrd", "run"]


def find_kernel(folder, package):
    return find_any_kernel(folder, package, MODULES)


def make_initrd(path, kvd, modules):
    programs = [stripped(os.path.dirname(path), kvd)] + [shutil.which(name, path=PATH) for name in ("ndctl", "mkfs.ext4")]
    make_any_initrd(path, os.path.join(ROOT, "tests/fault/dax_vm_init"), programs, modules, ["/etc/mke2fs.conf"])


class Machine(AnyMachine):
    """One that runs, with the device of `folder`."""

    def __init__(self, folder, kernel, make_file_system=False):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        super().__init__(
            folder, kernel,
            ["-object", f"memory-backend-file,id=m,share=on,size={DEVICE_MIB}M,mem-path={folder}/device",
             "-device", "nvdimm,memdev=m", "-device", "virtio-net-pci,netdev=n",
             "-netdev", f"user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:4410"],
            f"nvm_size={NVM_SIZE} memory={MEMORY}" + (" format=1" if make_file_system else ""),
            machine="q35,nvdimm=on", memory="768M,slots=1,maxmem=2G")
        self.address = f"127.0.0.1:{port}"
