"""Tools made on the spot: a run.sh, packed as the tar.gz that the service expects."""

import io
import os
import tarfile


class ToolShelf:
    """The folder AGENT_TOOLS_DIR."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, name, script, mode=0o755, files=None, flat=False):
        """Packs a tool and returns its name.

        A `script` of bytes becomes run.sh as it is; text gets the usual first line. `files` are further ones, as text,
        by their path inside the tool. `flat` leaves out the folder `<name>/` around them.
        """
        if isinstance(script, str):
            script = ("#!/bin/sh\n" + script).encode()
        inside = "" if flat else name + "/"
        members = [] if flat else [folder_member(name)]
        members.append(file_member(inside + "run.sh", script, mode))
        for path, text in (files or {}).items():
            members.append(file_member(inside + path, text.encode(), 0o644))
        return self.add_members(name, members)

    def add_members(self, name, members):
        packed = io.BytesIO()
        # Level 1: some archives hold thousands of files, and they are not kept.
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
            for info, data in members:
                archive.addfile(info, io.BytesIO(data))
        return self.add_bytes(name, packed.getvalue())

    def add_folder(self, name, source):
        """Packs a folder of the repository as the tool `name`."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(source, arcname=name)
        return self.add_bytes(name, packed.getvalue())

    def add_bytes(self, name, data):
        path = self.path(name)
        with open(path + ".new", "wb") as archive:
            archive.write(data)
        # Agents see the old archive or the new one, never a part of it.
        os.rename(path + ".new", path)
        return name

    def path(self, name):
        return os.path.join(self.folder, name + ".tar.gz")


def file_member(path, data, mode=0o644):
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(data), mode
    return info, data


def folder_member(path):
    return special_member(path, tarfile.DIRTYPE, 0o755)


def special_member(path, kind, mode=0o644, target=""):
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.linkname = kind, mode, target
    return info, b""
