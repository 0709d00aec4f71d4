// Errors. Every mistake a user can make throws one of these types, in release builds too.
//
// A message is one line: the operation, what is wrong, the operands' roles with their full shapes,
// the rule, and where. `check` builds the text only when the condition fails.
#pragma once

#include "real.h"

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace seppo {
inline namespace SEPPO_ABI {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ShapeError : Error {  // operands whose shapes do not fit together, or do not fit the operation
  using Error::Error;
};
struct IndexError : Error {  // a token, class, axis or offset out of range
  using Error::Error;
};
struct ArgumentError : Error {  // a scalar option out of range: dropout 1.5, eps -1
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

// A reference to one part of a message: text, a number, or an object of a class with an append overload beside it
// (Shape, Tensor).
class Part {
 public:
  Part(const char* text)
      : value_(text), append_([](std::string& to, const void* v) { to += static_cast<const char*>(v); }) {}
  template <class T>
  Part(const T& value)
      : value_(&value), append_([](std::string& to, const void* v) { add(to, *static_cast<const T*>(v)); }) {}
  void append_to(std::string& text) const { append_(text, value_); }

 private:
  template <class T>
  static void add(std::string& text, const T& value) {
    if constexpr (std::is_floating_point_v<T>)
      add_number(text, double{value});
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, char>)
      text += std::to_string(value);
    else if constexpr (std::is_same_v<T, char> || std::is_convertible_v<T, std::string_view>)
      text += value;
    else
      append(text, value);
  }
  static void add_number(std::string& text, double number);

  const void* value_;
  void (*append_)(std::string&, const void*);
};

std::string concat(std::initializer_list<Part> parts);
std::string where();  // " (in encoder.0.ffn.up)": the calling thread's region (region.h); empty outside of any

template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(std::initializer_list<Part> parts) {
  throw E(concat(parts) + where());
}

}  // namespace detail

// Concatenates the parts: text, numbers, and anything with an append overload beside it (Shape, Tensor).
template <class... Parts>
std::string concat_text(const Parts&... parts) {
  return detail::concat({detail::Part(parts)...});
}

template <class E = ShapeError, class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  detail::throw_error<E>({detail::Part(parts)...});
}

// check<IndexError>(id < n, "embedding: id ", id, " is not below the table's ", n, " rows");
template <class E = ShapeError, class... Parts>
inline void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    detail::throw_error<E>({detail::Part(parts)...});
}

}  // namespace SEPPO_ABI
}  // namespace seppo
