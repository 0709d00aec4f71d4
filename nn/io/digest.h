// Digest: whether data are the same as before, and a file undamaged. XXH3 of 128 bits (Collet 2021), as `xxhsum -H2`
// prints it. It recognises accidents, not forgers: anyone can compute one.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace seppo::inline SEPPO_ABI {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(const void* data, std::size_t bytes);
  template <class T>
  void add(std::span<T> values) {
    add(values.data(), values.size_bytes());
  }
  std::string hex() const;  // 32 digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace seppo::inline SEPPO_ABI
