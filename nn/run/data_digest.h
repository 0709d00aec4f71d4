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

// Sizes come first, so that nothing can move from one part of the data to the next.
inline void add_size(Digest& digest, std::size_t size) { digest.add(&size, sizeof size); }

template <class T>
void add_to(Digest& digest, std::span<const T> numbers) {
  add_size(digest, numbers.size());
  digest.add(numbers.data(), numbers.size_bytes());
}
template <class T>
void add_to(Digest& digest, const std::vector<T>& numbers) {
  add_to(digest, std::span<const T>(numbers));
}
template <class T>
void add_to(Digest& digest, const std::vector<std::vector<T>>& sequences) {
  add_size(digest, sequences.size());
  for (const std::vector<T>& sequence : sequences) add_to(digest, sequence);
}
inline void add_to(Digest& digest, const std::vector<std::string>& texts) {
  add_size(digest, texts.size());
  for (const std::string& text : texts) add_to(digest, std::span<const char>(text));
}
inline void add_to(Digest& digest, const Ragged& sequences) {
  add_to(digest, sequences.offsets);
  add_to(digest, sequences.tokens);
}

inline void add_to(Digest& digest, const Features& features) {
  add_to(digest, features.shape().sizes());
  add_to(digest, features.values());
}

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
