"""Puts libskerry and the commands into the wheel. scripts/wheel builds them, and says for which platform."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LibraryHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if self.target_name != "wheel" or version == "editable":
            return
        built, platform = os.environ.get("SKERRY_WHEEL_BUILT"), os.environ.get("SKERRY_WHEEL_PLATFORM")
        if not built or not platform:
            raise RuntimeError("build the wheel with scripts/wheel: it builds libskerry, which a C compiler and Go are needed for")
        build_data["force_include"][os.path.join(built, "libskerry.so")] = "skerry/libskerry.so"
        build_data["shared_scripts"][os.path.join(built, "skerry")] = "skerry"
        build_data["shared_scripts"][os.path.join(built, "lighthouse")] = "skerry-lighthouse"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"  # ctypes needs the ABI of no Python, nor of torch
