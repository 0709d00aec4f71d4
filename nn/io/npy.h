// NumPy's .npy files: one array.
//
//   const NpyFile file("images.npy");                        // the header alone
//   file.type(), file.shape()                                // "|u1", {60000, 28, 28}
//   const std::vector<real> pixels = file.values<real>();    // row-major, whatever the order of the file
//   write_npy("half.npy", {2, 3}, values);
//
// Format: numpy/lib/format.py, versions 1.0 to 3.0, of either byte order and with axes of either order, of the types
// f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 and b1. Others, such as texts, complex numbers and records, are refused by
// their name, and so are .npz archives: numpy.load and numpy.save make .npy files of what is in them.
//
// The reader trusts nothing: before it allocates memory for the values, it throws FormatError for a header that is not
// as the format says, a size that overflows, and a file that is longer or shorter than its values.
#pragma once

#include "../data/features.h"
#include "atomic_file.h"

#include "../../autograd/core/list.h"
#include "../../autograd/core/shape.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class NpyFile {
 public:
  // Reads the header. Throws FileError if the file cannot be read, and FormatError.
  explicit NpyFile(const std::filesystem::path& path);

  const std::string& type() const { return type_; }  // as the file has it: "<f4"
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::size_t size() const { return size_; }  // elements
  bool is_fortran_order() const { return is_fortran_order_; }

  // All values, row-major, as float, double, int or std::int64_t. Floating-point types round. Throws FormatError naming
  // the element if one has no such value: 2.5 or 3e9 as an int, 1e39 as a float, a boolean of 2.
  template <class T>
  std::vector<T> values() const;

 private:
  void read_header();

  File file_;
  std::string name_;  // of the file, for messages
  std::string type_;
  std::vector<std::int64_t> shape_;
  bool is_fortran_order_ = false;
  std::size_t size_ = 0, width_ = 0;  // bytes of an element
  std::uint64_t begin_ = 0;           // of the values in the file
};

// An example for each row of the array. Throws as NpyFile does, and ShapeError for an array without axes or one
// that is no tensor.
Features read_features(const std::filesystem::path& path);

// Writes version 1.0, row-major and little-endian. Throws ShapeError if the values are not those of the shape,
// FileError if the file cannot be written.
void write_npy(const std::filesystem::path& path, const Shape& shape, List<float> values);
void write_npy(const std::filesystem::path& path, const Shape& shape, List<double> values);
void write_npy(const std::filesystem::path& path, const Shape& shape, List<int> values);
void write_npy(const std::filesystem::path& path, const Shape& shape, List<std::int64_t> values);
// For any type, by NumPy's name for it, "<f2"; the callback writes the values.
void write_npy(const std::filesystem::path& path, std::string_view type, std::span<const std::int64_t> shape,
               FunctionRef<void(File&)> write_values);

}  // namespace SEPPO_ABI
}  // namespace seppo
