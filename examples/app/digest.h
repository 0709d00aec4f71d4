// The digest of a program's data: a training run resumes only with the same data.
#pragma once

#include <seppo/nn/data/ragged.h>
#include <seppo/nn/io/digest.h>

#include <string>
#include <vector>

namespace examples {

template <class T>
void add(seppo::Digest& digest, const std::vector<T>& numbers) {
  const std::size_t size = numbers.size();
  digest.add(&size, sizeof size);
  digest.add(numbers.data(), size * sizeof(T));
}
template <class T>
void add(seppo::Digest& digest, const std::vector<std::vector<T>>& sequences) {
  for (const std::vector<T>& sequence : sequences) add(digest, sequence);
}
inline void add(seppo::Digest& digest, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) digest.add(text.c_str(), text.size() + 1);
}
inline void add(seppo::Digest& digest, const seppo::Ragged& sequences) {
  add(digest, sequences.offsets);
  add(digest, sequences.tokens);
}

template <class... Parts>
std::string digest_of(const Parts&... parts) {
  seppo::Digest digest;
  (add(digest, parts), ...);
  return digest.hex();
}

}  // namespace examples
