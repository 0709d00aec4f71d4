// GGUF files for tests, written as their format's description says.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace test {

// The bytes of a file, or of a part of one.
struct GgufBytes {
  std::string bytes = {};

  template <class T>
  GgufBytes& number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& text(const std::string& text) {
    number(std::uint64_t{text.size()});
    bytes += text;
    return *this;
  }
};

class GgufWriter {
 public:
  void add(const std::string& key, std::uint32_t value) { entry(key, 4).number(value); }
  void add(const std::string& key, float value) { entry(key, 6).number(value); }
  void add(const std::string& key, bool value) { entry(key, 7).number(std::uint8_t{value}); }
  void add(const std::string& key, const std::string& value) { entry(key, 8).text(value); }
  void add(const std::string& key, const std::vector<std::string>& values) {
    list(key, 8, values.size());
    for (const std::string& value : values) metadata_.text(value);
  }
  void add(const std::string& key, const std::vector<bool>& values) {
    list(key, 7, values.size());
    for (const bool value : values) metadata_.number(std::uint8_t{value});
  }
  void add(const std::string& key, const std::vector<std::int32_t>& values) {
    list(key, 5, values.size());
    for (const std::int32_t value : values) metadata_.number(value);
  }
  void add(const std::string& key, const std::vector<float>& values) {
    list(key, 6, values.size());
    for (const float value : values) metadata_.number(value);
  }

  // A tensor whose sizes are given as GGUF does, the innermost first.
  void tensor(const std::string& name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
              const std::string& bytes) {
    infos_.text(name).number(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) infos_.number(size);
    infos_.number(type).number(std::uint64_t{data_.size()});
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    ++tensors_;
  }
  void floats(const std::string& name, const std::vector<std::uint64_t>& sizes, const std::vector<float>& values) {
    tensor(name, sizes, 0, std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
  }

  std::string file(std::uint32_t version = 3, std::size_t alignment = 32) const {
    GgufBytes all{"GGUF"};
    all.number(version).number(tensors_).number(entries_);
    all.bytes += metadata_.bytes + infos_.bytes;
    all.bytes.resize((all.bytes.size() + alignment - 1) / alignment * alignment);
    return all.bytes + data_;
  }

 private:
  GgufBytes& entry(const std::string& key, std::uint32_t type) {
    ++entries_;
    return metadata_.text(key).number(type);
  }
  void list(const std::string& key, std::uint32_t type, std::size_t size) {
    entry(key, 9).number(type).number(std::uint64_t{size});
  }

  GgufBytes metadata_, infos_;
  std::string data_;
  std::uint64_t tensors_ = 0, entries_ = 0;
};

}  // namespace test
