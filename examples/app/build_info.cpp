// Facts of the build come from CMake, those of the processor from the libraries that chose their kernels for it.
#include "app/build_info.h"

#include "app/arithmetic.h"

#include <seppo/autograd/blas/library.h>
#include <seppo/autograd/core/real.h>

#include <fmt/format.h>

#ifdef SEPPO_MPI
#define OMPI_SKIP_MPICXX  // its C++ interface, which is no longer standard
#include <mpi.h>
#endif

namespace examples {
namespace {

std::string mpi() {
#ifdef SEPPO_MPI
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int size = 0;
  MPI_Get_library_version(text, &size);
  const std::string all = text;
  return all.substr(0, all.find_first_of(",\n"));
#else
  return "none";
#endif
}

}  // namespace

std::string build_info(const std::string& program) {
  std::string text;
  const auto line = [&](const char* name, const std::string& fact) { text += fmt::format("{:<13} {}\n", name, fact); };
  line("program", program);
  line("version", SEPPO_VERSION);
  line("commit", SEPPO_COMMIT);
  line("compiler", SEPPO_COMPILER);
  line("reals", sizeof(seppo::real) == 4 ? "float32" : "float64");
  line("instructions", instructions());
  line("BLAS", seppo::blas_library());
  line("MPI", mpi());
  return text;
}

}  // namespace examples
