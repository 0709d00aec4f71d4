// digest_of: tells a training run that resumes whether its data are still the same.
//
//   const std::string digest = digest_of(sources, targets);
#pragma once

#include "../data/features.h"
#include "../data/ragged.h"
#include "../io/digest.h"

#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace detail {

template <class T>
void add_to(Digest& digest, std::span<const T> numbers) {
  const std::size_t size = numbers.size();
  digest.add(&size, sizeof size);
  digest.add(numbers.data(), numbers.size_bytes());
}
template <class T>
void add_to(Digest& digest, const std::vector<T>& numbers) {
  add_to(digest, std::span<const T>(numbers));
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

inline void add_to(Digest& digest, const Features& features) { add_to(digest, features.values()); }

}  // namespace detail

// The digest of vectors of numbers, of such vectors or of texts, of Ragged sequences and of Features, in this order.
template <class... Parts>
std::string digest_of(const Parts&... parts) {
  Digest digest;
  (detail::add_to(digest, parts), ...);
  return digest.hex();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
