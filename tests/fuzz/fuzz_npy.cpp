// Arrays of NumPy. Whatever is accepted has as many bytes as its shape and type say; its values are the same as int, as
// float and as double where they are read at all, and are read back unchanged when they are written.
#include "fuzz/fuzz.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/npy.h>

#include <cmath>
#include <memory>
#include <vector>

namespace {

using fuzz::require;
using seppo::FormatError;
using seppo::NpyFile;

template <class T>
std::vector<T> values_of(const NpyFile& file) {
  std::vector<T> values;
  if (fuzz::refuses<FormatError>([&] { values = file.values<T>(); })) return {};
  require(values.size() == file.size(), "another number of values");
  return values;
}

template <class T>
void require_equal(const std::vector<double>& doubles, const std::vector<T>& values) {
  if (doubles.size() != values.size()) return;  // refused
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool are_nan = std::isnan(doubles[i]) && std::isnan(static_cast<double>(values[i]));
    require(are_nan || static_cast<T>(doubles[i]) == values[i], "another value");
  }
}

void require_size(const NpyFile& file, std::size_t bytes) {
  const auto width = static_cast<std::size_t>(file.type().back() - '0');
  std::size_t elements = 1;
  for (const std::int64_t size : file.shape()) elements *= static_cast<std::size_t>(size);
  require(elements == file.size() && elements * width <= bytes, "more values than bytes");
}

void require_round_trip(const std::vector<double>& values) {
  static const std::filesystem::path path = std::filesystem::temp_directory_path() / "fuzz.npy";
  seppo::write_npy(path, {static_cast<int>(values.size())}, values);
  const std::vector<double> read = NpyFile(path).values<double>();
  const auto is_same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  require(std::equal(values.begin(), values.end(), read.begin(), read.end(), is_same), "written values changed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::MemoryFile memory;
  const std::filesystem::path& path = memory.hold({reinterpret_cast<const char*>(data), size});
  std::unique_ptr<NpyFile> file;
  if (fuzz::refuses<FormatError>([&] { file = std::make_unique<NpyFile>(path); })) return 0;
  require_size(*file, size);
  const std::vector<double> doubles = values_of<double>(*file);
  require_equal(doubles, values_of<float>(*file));
  require_equal(doubles, values_of<int>(*file));
  if (size % 16 == 0) require_round_trip(doubles);  // writing takes longer than everything else
  fuzz::refuses<FormatError, seppo::ShapeError>([&] { seppo::read_features(path); });
  return 0;
}
