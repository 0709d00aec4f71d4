// Errors. Every mistake a user can make throws one of these types, in release builds too.
//
// A message is one line: the operation, what is wrong, the operands' roles with their full shapes,
// the rule, and where. `check` builds the text only when the condition fails.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace seppo {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ShapeError : Error {  // operands whose shapes do not fit together, or the operation
  using Error::Error;
};
struct IndexError : Error {  // a token, class, axis or offset out of range
  using Error::Error;
};
struct ArgumentError : Error {  // a scalar option out of range: dropout 1.5, epsilon -1
  using Error::Error;
};
struct StateError : Error {  // a handle or graph used at the wrong time: stale tensors, released gradients
  using Error::Error;
};
struct FileError : Error {  // a file that cannot be opened, read or written
  using Error::Error;
};
struct FormatError : Error {  // a file or text whose content breaks its format
  using Error::Error;
};
struct NumericError : Error {  // a loss or gradient that is not finite
  using Error::Error;
};

namespace detail {
inline void append(std::string& text, std::string_view part) { text += part; }
inline void append(std::string& text, const char* part) { text += part; }
inline void append(std::string& text, char part) { text += part; }
inline void append(std::string& text, int part) { text += std::to_string(part); }
inline void append(std::string& text, std::int64_t part) { text += std::to_string(part); }
inline void append(std::string& text, std::size_t part) { text += std::to_string(part); }
void append(std::string& text, double part);
std::string where();  // " (in encoder.0.ffn.up)": the region (region.h) the thread computes in; or nothing
}  // namespace detail

// Concatenates the parts: strings, numbers, and anything with a detail::append overload (Shape).
template <class... Parts>
std::string concat_text(const Parts&... parts) {
  std::string text;
  using detail::append;
  (append(text, parts), ...);
  return text;
}

template <class E = ShapeError, class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  throw E(concat_text(parts...) + detail::where());
}

// check<IndexError>(id < n, "embedding: id ", id, " is not below the table's ", n, " rows");
template <class E = ShapeError, class... Parts>
inline void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(parts...);
}

}  // namespace seppo
