// Widens numbers to double, and computes moments in two passes over the file.
#include "inspect/statistics.h"

#include <seppo/autograd/core/check.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace inspect {
namespace {

template <class T>
std::vector<double> widened(std::span<const std::byte> bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    numbers[i] = static_cast<double>(value);
  }
  return numbers;
}

}  // namespace

bool has_numbers(std::string_view dtype) { return !numpy_type(dtype).empty(); }

std::vector<double> numbers_of(std::string_view dtype, std::span<const std::byte> bytes) {
  if (dtype == "F32") return widened<float>(bytes);
  if (dtype == "F64") return widened<double>(bytes);
  if (dtype == "I8") return widened<std::int8_t>(bytes);
  if (dtype == "U8" || dtype == "BOOL") return widened<std::uint8_t>(bytes);
  if (dtype == "I16") return widened<std::int16_t>(bytes);
  if (dtype == "U16") return widened<std::uint16_t>(bytes);
  if (dtype == "I32") return widened<std::int32_t>(bytes);
  if (dtype == "U32") return widened<std::uint32_t>(bytes);
  if (dtype == "I64") return widened<std::int64_t>(bytes);
  if (dtype == "U64") return widened<std::uint64_t>(bytes);
  if (dtype == "F16") return widened<seppo::Half>(bytes);
  seppo::check<seppo::FormatError>(dtype == "BF16", "numbers of type ", dtype, " are not read here");
  return widened<seppo::BFloat>(bytes);
}

void for_each_piece(const seppo::SafeTensorsFile& file, const seppo::TensorInfo& tensor,
                    seppo::FunctionRef<void(std::span<const std::byte>)> f) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(tensor.bytes(), kPiece)));
  seppo::TensorInfo piece = tensor;
  for (; piece.begin < tensor.end; piece.begin = piece.end) {
    piece.end = std::min(tensor.end, piece.begin + kPiece);
    const std::span some = std::span(bytes).first(static_cast<std::size_t>(piece.bytes()));
    file.read(piece, some);
    f(some);
  }
}

Statistics statistics_of(const seppo::SafeTensorsFile& file, const seppo::TensorInfo& tensor) {
  const auto for_each_number = [&](auto f) {
    for_each_piece(file, tensor, [&](std::span<const std::byte> piece) {
      for (const double x : numbers_of(tensor.dtype, piece)) f(x);
    });
  };
  Statistics s;
  if (!has_numbers(tensor.dtype)) {
    s.elements = 1;
    for (const std::int64_t size : tensor.shape) s.elements *= static_cast<std::uint64_t>(size);
    return s;
  }
  double sum = 0, squares = 0, count = 0;
  for_each_number([&](double x) {
    ++s.elements;
    s.zeros += x == 0;
    if (!std::isfinite(x)) {
      ++s.not_finite;
      return;
    }
    s.least = count == 0 ? x : std::min(s.least, x);
    s.most = count == 0 ? x : std::max(s.most, x);
    sum += x;
    ++count;
  });
  if (count == 0) return s;
  s.mean = sum / count;
  for_each_number([&](double x) {
    if (std::isfinite(x)) squares += (x - s.mean) * (x - s.mean);
  });
  s.deviation = std::sqrt(squares / count);
  return s;
}

std::string_view numpy_type(std::string_view dtype) {
  static const std::map<std::string_view, std::string_view> types{
      {"F64", "<f8"}, {"F32", "<f4"}, {"F16", "<f2"}, {"BF16", "<f4"}, {"I64", "<i8"}, {"U64", "<u8"}, {"I32", "<i4"},
      {"U32", "<u4"}, {"I16", "<i2"}, {"U16", "<u2"}, {"I8", "|i1"},   {"U8", "|u1"},  {"BOOL", "|b1"}};
  const auto found = types.find(dtype);
  return found == types.end() ? "" : found->second;
}

}  // namespace inspect
