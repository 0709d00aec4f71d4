// Checks of errors and their messages.
#pragma once

#include <seppo/autograd/core/tape.h>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <string>
#include <vector>

namespace test {

// Runs f, which must throw an E whose message contains every part.
template <class E>
void check_error(const std::function<void()>& f, const std::vector<std::string>& parts) {
  seppo::tape().clear();
  try {
    f();
    BOOST_ERROR("no error; expected one with: " + parts.front());
  } catch (const E& e) {
    const std::string text = e.what();
    for (const std::string& part : parts)
      BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos, "'" << part << "' is not in: " << text);
    BOOST_CHECK_MESSAGE(text.size() <= 250 && text.find('\n') == std::string::npos, "not one line: " << text);
  } catch (const std::exception& e) {
    BOOST_ERROR(std::string("another type of error: ") + e.what());
  }
}

// The message of the error that f throws.
inline std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const seppo::Error& e) {
    return e.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace test
