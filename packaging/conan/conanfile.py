# Conan's recipe for seppo: `conan create packaging/conan`, in a working copy or in what a source tarball unpacks to.
# It builds the tree that it lies in, and downloads nothing: what seppo needs comes from the system's packages.
from pathlib import Path
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt

required_conan_version = ">=2.0"


class Seppo(ConanFile):
    name = "seppo"
    description = "Reverse-mode autograd and Transformers for the CPU"
    license = "Apache-2.0"
    topics = ("autograd", "transformers", "machine-learning")
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"text": [True, False]}  # seppo::text, the tokenizers, which need Oniguruma and utf8proc
    default_options = {"text": True}

    @property
    def _tree(self):
        return Path(self.recipe_folder).parent.parent

    def set_version(self):
        project = (self._tree / "CMakeLists.txt").read_text()
        self.version = re.search(r"project\(seppo VERSION ([0-9.]+)", project).group(1)

    def export_sources(self):
        files = ("CMakeLists.txt", "LICENSE", "*.md")
        folders = ("cmake", "autograd", "nn", "models", "docs", "examples/small")
        for pattern in files:
            copy(self, pattern, self._tree, self.export_sources_folder, excludes="*/*")
        for folder in folders:
            copy(self, "*", self._tree / folder, Path(self.export_sources_folder) / folder)

    def system_requirements(self):
        packages = ["libopenblas-dev", "libhwy-dev", "nlohmann-json3-dev", "libxxhash-dev"]
        if self.options.text:
            packages += ["libonig-dev", "libutf8proc-dev"]
        Apt(self).install(packages)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["SEPPO_TEXT"] = bool(self.options.text)
        for part in ("BUILD_EXAMPLES", "BUILD_TESTS", "SHARED", "MPI"):
            toolchain.cache_variables["SEPPO_" + part] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        CMake(self).install()

    # CMake finds what seppo itself installs, with its targets and components; the rest is for other generators.
    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        for name, library, defines in (("seppo", "seppo", []), ("seppo-f64", "seppo_f64", ["SEPPO_FLOAT64"])):
            component = self.cpp_info.components[name]
            component.set_property("pkg_config_name", name)
            component.builddirs = ["lib/cmake/seppo"]
            component.libs = [library]
            component.defines = defines
            component.system_libs = ["openblas", "hwy", "pthread"]
            if not self.options.text:
                continue
            text = self.cpp_info.components[name.replace("seppo", "seppo-text")]
            text.set_property("pkg_config_name", name.replace("seppo", "seppo-text"))
            text.libs = [library.replace("seppo", "seppo_text")]
            text.requires = [name]
            text.system_libs = ["onig", "utf8proc"]
