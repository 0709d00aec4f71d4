// digest_of: tells a training run that resumes whether its data are still the same.
//
//   const std::string digest = digest_of(sources, targets);
#pragma once

#include "../data/ragged.h"
#include "../io/digest.h"

#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace detail {

template <class T>
void add_to(Digest& digest, const std::vector<T>& numbers) {
  const std::size_t size = numbers.size();
  digest.add(&size, sizeof size);
  digest.add(numbers.data(), size * sizeof(T));
}
template <class T>
void add_to(Digest& digest, const std::vector<std::vector<T>>& sequences) {
  for (const std::vector<T>& sequence : sequences) add_to(digest, sequence);
}
inline void add_to(Digest& digest, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) digest.add(text.c_str(), text.size() + 1);
}
inline void add_to(Digest& digest, const Ragged& sequences) {
  add_to(digest, sequences.offsets);
  add_to(digest, sequences.tokens);
}

}  // namespace detail

// The digest of vectors of numbers, of such vectors or of texts, and of Ragged sequences, in this order.
template <class... Parts>
std::string digest_of(const Parts&... parts) {
  Digest digest;
  (detail::add_to(digest, parts), ...);
  return digest.hex();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
