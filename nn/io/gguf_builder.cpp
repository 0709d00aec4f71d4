// The bytes that gguf.h describes, in the order of the file.
#include "gguf_builder.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "atomic_file.h"

#include <algorithm>
#include <bit>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kAlignment = 32;
constexpr std::uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kText = 8, kList = 9;  // types of metadata

template <class T>
void put_number(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& to, std::string_view text) {
  put_number(to, std::uint64_t{text.size()});
  to += text;
}

// Of a tensor of floats.
void put_info(std::string& to, const GgufTensor& tensor) {
  constexpr std::uint32_t kF32 = 0;
  put_text(to, tensor.name);
  put_number(to, static_cast<std::uint32_t>(tensor.shape.size()));
  for (std::size_t i = tensor.shape.size(); i-- > 0;) put_number(to, static_cast<std::uint64_t>(tensor.shape[i]));
  put_number(to, kF32);
  put_number(to, tensor.offset);
}

std::uint64_t aligned(std::uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void GgufBuilder::begin(std::string_view key, std::uint32_t type) {
  check<ArgumentError>(!metadata_.contains(key), name_, ": ", printable(key), " is there already");
  put_text(keys_, key);
  put_number(keys_, type);
}

void GgufBuilder::begin_list(std::string_view key, std::uint32_t type, std::size_t size) {
  begin(key, kList);
  put_number(keys_, type);
  put_number(keys_, std::uint64_t{size});
}

void GgufBuilder::add(std::string_view key, std::uint32_t value) {
  begin(key, kUint32);
  put_number(keys_, value);
  metadata_[key] = value;
}

void GgufBuilder::add(std::string_view key, float value) {
  begin(key, kFloat32);
  put_number(keys_, value);
  metadata_[key] = as_decimal(value);
}

void GgufBuilder::add(std::string_view key, bool value) {
  begin(key, kBool);
  put_number(keys_, std::uint8_t{value});
  metadata_[key] = value;
}

void GgufBuilder::add(std::string_view key, std::string_view value) {
  begin(key, kText);
  put_text(keys_, value);
  metadata_[key] = value;
}

void GgufBuilder::add(std::string_view key, List<std::string> values) {
  begin_list(key, kText, values.size());
  for (const std::string& value : values) put_text(keys_, value);
  metadata_[key] = std::span<const std::string>(values);
}

void GgufBuilder::add(std::string_view key, List<std::int32_t> values) {
  begin_list(key, kInt32, values.size());
  for (const std::int32_t value : values) put_number(keys_, value);
  metadata_[key] = std::span<const std::int32_t>(values);
}

void GgufBuilder::add(std::string_view key, List<float> values) {
  begin_list(key, kFloat32, values.size());
  metadata_[key] = nlohmann::json::array();
  for (const float value : values) {
    put_number(keys_, value);
    metadata_[key].push_back(as_decimal(value));
  }
}

void GgufBuilder::add_tensor(const std::string& name, List<std::int64_t> shape,
                             std::function<void(std::span<float>)> fill) {
  GgufTensor tensor{.name = name, .type = "F32", .shape = {shape.begin(), shape.end()}};
  if (!tensors_.empty()) tensor.offset = aligned(tensors_.back().offset + tensors_.back().bytes);
  tensor.bytes = tensor.numel() * sizeof(float);
  tensors_.push_back(std::move(tensor));
  fills_.push_back(std::move(fill));
}

void GgufBuilder::read(const GgufTensor& tensor, std::span<real> to, std::size_t first) const {
  check_numbers(tensor, first, to.size());
  const auto found = std::ranges::find(tensors_, tensor.name, &GgufTensor::name);
  check(found != tensors_.end(), name_, ": has no tensor ", printable(tensor.name));
  std::vector<float> values(tensor.numel());
  fills_[static_cast<std::size_t>(found - tensors_.begin())](values);
  std::ranges::copy(std::span(values).subspan(first, to.size()), to.begin());
}

void GgufBuilder::write(const std::filesystem::path& path) const {
  constexpr std::uint32_t kVersion = 3;
  std::string header = "GGUF";
  put_number(header, kVersion);
  put_number(header, std::uint64_t{tensors_.size()});
  put_number(header, std::uint64_t{metadata_.size()});
  header += keys_;
  for (const GgufTensor& tensor : tensors_) put_info(header, tensor);
  header.resize(aligned(header.size()));
  replace_atomically(path, [&](File& file) {
    file.write(header.data(), header.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::size_t numbers = tensors_[i].numel();
      std::vector<float> values(aligned(numbers * sizeof(float)) / sizeof(float));
      fills_[i](std::span(values).first(numbers));
      file.write(values.data(), values.size() * sizeof(float));
    }
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
