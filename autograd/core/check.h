// Errors. Every mistake a user can make throws one of these types, in release builds too.
//
// A message is one line: the operation, what is wrong, the operands' roles with their full shapes,
// the rule, and where. `check` builds the text only when the condition fails.
#pragma once

#include "real.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace seppo::inline SEPPO_ABI {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ShapeError : Error {  // operands whose shapes do not fit together, or the operation
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

// A reference to one part of a message: a string, a number, or an object of a class with an append overload
// beside it (Shape, Tensor).
class Part {
 public:
  Part(const char* text);
  Part(const std::string& text);
  Part(const std::string_view& text);
  Part(char character);
  Part(int number);
  Part(std::int64_t number);
  Part(std::size_t number);
  Part(double number);
  template <class T>
  requires std::is_class_v<T> Part(const T& object)
      : value_{.pointer = &object},
        append_([](std::string& text, Value v) { append(text, *static_cast<const T*>(v.pointer)); }) {}
  void append_to(std::string& text) const { append_(text, value_); }

 private:
  union Value {
    const void* pointer;
    std::int64_t integer;
    std::size_t size;
    double number;
  };
  Value value_;
  void (*append_)(std::string&, Value);
};

std::string concat(std::initializer_list<Part> parts);
std::string where();  // " (in encoder.0.ffn.up)": the region (region.h) the thread computes in; or nothing

template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(std::initializer_list<Part> parts) {
  throw E(concat(parts) + where());
}

}  // namespace detail

// Concatenates the parts: strings, numbers, and anything with an append overload beside it (Shape).
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

}  // namespace seppo::inline SEPPO_ABI
