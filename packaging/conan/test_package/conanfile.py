# What `conan create` does with the package it has made: a project outside of this tree (tests/consumer) finds it,
# trains, saves, loads and resumes, and checks gradients; pkg-config's files, as Conan writes them, name its libraries.
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Consumer(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "CMakeDeps", "PkgConfigDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=str(Path(self.recipe_folder) / "../../../tests/consumer"))
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(f'"{self.build_folder}/consumer" "{self.build_folder}"', env="conanrun")
            self.run(f'PKG_CONFIG_PATH="{self.generators_folder}" pkg-config --libs seppo seppo-f64')
