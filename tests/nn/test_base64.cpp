// Base64: the examples of its standard, any bytes there and back, and texts that are not base64.
#include <seppo/nn/io/base64.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <random>
#include <string>
#include <utility>

using seppo::from_base64;
using seppo::to_base64;

BOOST_AUTO_TEST_CASE(examples_of_the_standard) {
  const std::array<std::pair<std::string, std::string>, 7> examples{{{"", ""},
                                                                     {"f", "Zg=="},
                                                                     {"fo", "Zm8="},
                                                                     {"foo", "Zm9v"},
                                                                     {"foob", "Zm9vYg=="},
                                                                     {"fooba", "Zm9vYmE="},
                                                                     {"foobar", "Zm9vYmFy"}}};
  for (const auto& [bytes, padded] : examples) {
    const std::string text = padded.substr(0, padded.find('='));
    BOOST_CHECK_EQUAL(to_base64(bytes), text);
    BOOST_CHECK(from_base64(text) == bytes);
    BOOST_CHECK(from_base64(padded) == bytes);
  }
}

BOOST_AUTO_TEST_CASE(any_bytes_come_back) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 1000; ++trial) {
    std::string bytes(random() % 50, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    BOOST_CHECK(from_base64(to_base64(bytes)) == bytes);
  }
}

BOOST_AUTO_TEST_CASE(other_characters_are_no_base64) {
  for (const char* text : {"Zm9v!", "Zm 9v", "Zm9v\n", "-_", "Zg==Zg", "=Zm9v", "\xc3\xa9"})
    BOOST_CHECK(!from_base64(text));
}
