// Untrusted text: displayed safely, and always read by the same reader.
#include "app/words.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/run/data_digest.h>
#include <seppo/nn/text/vocabulary.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>

using namespace seppo;
using namespace examples;

namespace {

std::string shown(std::string_view text, std::size_t limit = 60) { return printable(text, limit); }

// A temporary file with this content, and the results of reading it.
struct TextFile {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("seppo-text-" + std::to_string(::getpid()));
  explicit TextFile(const std::string& content) { std::ofstream(path, std::ios::binary) << content; }
  ~TextFile() { std::filesystem::remove(path); }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    TextReader(path).for_each_line([&](std::string_view line) { lines.emplace_back(line); });
    return lines;
  }
  std::string refusal() const try {
    read_text(path);
    return "none";
  } catch (const FormatError& e) {
    return std::string(e.what()).substr(path.string().size());
  }
};

using Lines = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(printable_text_is_safe_on_a_terminal) {
  BOOST_CHECK_EQUAL(shown("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  BOOST_CHECK_EQUAL(shown("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"), "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
  BOOST_CHECK_EQUAL(shown("\xc3"), "\\xc3");
  BOOST_CHECK_EQUAL(shown("\xc2\x9bz \xc2\xa0z"), "\\xc2\\x9bz \xc2\xa0z");  // a C1 control, and no control
  BOOST_CHECK_EQUAL(shown("\xc0\x80"), "\\xc0\\x80");
  BOOST_CHECK_EQUAL(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  BOOST_CHECK_EQUAL(shown("\xed\x9f\xbf"), "\xed\x9f\xbf");  // the last code point before the surrogates
  BOOST_CHECK_EQUAL(shown(std::string(100, 'x'), 10), "xxxxxxxxxx...");
  BOOST_CHECK_EQUAL(shown(std::string(100, '\n'), 10), "\\x0a\\x0a\\x0a...");
  BOOST_CHECK_EQUAL(shown("éééééééééé", 10), "ééééé...");
  const std::filesystem::path path = std::string(121, 'x');
  BOOST_CHECK_EQUAL(concat_text(printable_path(path)), std::string(120, 'x') + "...");
  BOOST_CHECK_EQUAL(printable_path(path / "y"), std::string(120, 'x') + "...");
  BOOST_CHECK_EQUAL(concat_text(printable_path(path.native().substr(1))), std::string(120, 'x'));
  BOOST_CHECK_EQUAL("path " + printable("\n") + concat_text("/", printable("\t")), "path \\x0a/\\x09");
  BOOST_CHECK_EQUAL(concat_text("a long text before ", printable("xxxxx", 3)), "a long text before xxx...");
}

// Naming a text in check() costs nothing unless the check fails; temporaries are copied, since they do not live on.
BOOST_AUTO_TEST_CASE(a_text_is_escaped_only_when_it_is_shown) {
  const std::string text = "x";
  const std::filesystem::path path = "p";
  static_assert(std::is_trivially_copyable_v<decltype(printable(text))>);
  static_assert(std::is_trivially_copyable_v<decltype(printable_path(path))>);
  static_assert(std::is_same_v<decltype(printable(text + "y")), std::string>);
  static_assert(std::is_same_v<decltype(printable_path(path / "y")), std::string>);
  BOOST_CHECK_EXCEPTION((fail<FormatError>("'", printable("a\n"), "'")), FormatError,
                        [](const FormatError& e) { return e.what() == std::string("'a\\x0a'"); });
}

BOOST_AUTO_TEST_CASE(the_length_of_what_is_utf8) {
  const std::string good = "aé→😀";
  for (std::size_t before = 0; before < 20; ++before) {
    const std::string text = std::string(before, 'x') + good;
    BOOST_CHECK_EQUAL(utf8_length(text), text.size());
    for (const char* bad : {"\x80", "\xff", "\xc3", "\xe2\x82", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
      BOOST_CHECK_EQUAL(utf8_length(text + bad), text.size());
      BOOST_CHECK_EQUAL(utf8_length(text + bad + "more than eight"), text.size());
    }
  }
  BOOST_CHECK_EQUAL(utf8_length(""), 0);
  for (const auto& [character, number] : {std::pair{"a", 97u}, {"é", 0xE9u}, {"→", 0x2192u}, {"😀", 0x1F600u}})
    BOOST_CHECK_EQUAL(static_cast<unsigned>(code_point(character)), number);
}

BOOST_AUTO_TEST_CASE(lines_of_a_file) {
  BOOST_CHECK(TextFile("").lines() == Lines{});
  BOOST_CHECK((TextFile("a\n\nb").lines() == Lines{"a", "", "b"}));
  BOOST_CHECK((TextFile("a\r\nb\rc\r\n\r\n").lines() == Lines{"a", "b\rc", ""}));
  BOOST_CHECK((TextFile("\xef\xbb\xbf"
                        "a\n\xef\xbb\xbf")
                   .lines() == Lines{"a", "\xef\xbb\xbf"}));
  BOOST_CHECK(TextFile("\xef\xbb\xbf").lines() == Lines{});
}

// A line that is too long ends the reading, wherever pieces end, and is named by its number.
BOOST_AUTO_TEST_CASE(lines_have_a_longest) {
  const auto refusal = [](const TextFile& file, std::size_t longest, std::size_t taken) {
    TextReader reader(file.path);
    std::string piece;
    while (piece.size() < taken) piece += reader.next();
    try {
      reader.for_each_line([](std::string_view) {}, longest);
    } catch (const FormatError& e) {
      return std::string(e.what()).substr(file.path.string().size());
    }
    return std::string("none");
  };
  BOOST_CHECK_EQUAL(refusal(TextFile("12345\r\n\n12345"), 5, 0), "none");
  BOOST_CHECK_EQUAL(refusal(TextFile("12345\r\n\n123456\n"), 5, 0), ":3: is longer than 5 bytes");
  BOOST_CHECK_EQUAL(refusal(TextFile("1\n123456"), 5, 0), ":2: is longer than 5 bytes");
  constexpr std::size_t kPiece = 1 << 18;
  for (std::size_t size = kPiece - 2; size < kPiece + 2; ++size) {
    const TextFile file(std::string(size, 'x') + "\r\ny\n");
    BOOST_CHECK_EQUAL(refusal(file, size, 0), "none");
    BOOST_CHECK_EQUAL(refusal(file, size - 1, 0), ":1: is longer than " + std::to_string(size - 1) + " bytes");
  }
  const TextFile many(std::string(kPiece, '\n') + "xx\n");
  BOOST_CHECK_EQUAL(refusal(many, 1, 1), ":" + std::to_string(kPiece + 1) + ": is longer than 1 bytes");
}

// Anything may straddle the end of a piece (2^18 bytes): lines, line ends, characters.
BOOST_AUTO_TEST_CASE(pieces_leave_no_trace) {
  for (std::size_t before = (1 << 18) - 6; before < (1 << 18) + 2; ++before) {
    const std::string first(before, 'x'), content = first + "😀\r\né\n" + first;
    const TextFile file(content);
    BOOST_CHECK(read_text(file.path) == content);
    BOOST_CHECK((file.lines() == Lines{first + "😀", "é", first}));
    BOOST_CHECK_EQUAL(TextFile(first + "é\xff").refusal(),
                      ":1:" + std::to_string(before + 2) + ": byte 0xff is not UTF-8");
    BOOST_CHECK_EQUAL(TextFile(content + "\n→\xe2\x82").refusal(), ":4:2: byte 0xe2 is not UTF-8");
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_text_is_named_by_its_place) {
  BOOST_CHECK_EQUAL(TextFile("ab\nc\xff").refusal(), ":2:2: byte 0xff is not UTF-8");
  BOOST_CHECK_EQUAL(TextFile("é\xc3").refusal(), ":1:2: byte 0xc3 is not UTF-8");
  BOOST_CHECK_EQUAL(TextFile("\xed\xa0\x80").refusal(), ":1:1: byte 0xed is not UTF-8");
  BOOST_CHECK_EQUAL(TextFile(std::string("a\n\0b", 4)).refusal(), ":2:1: byte 0x00 is not text");
  BOOST_CHECK_THROW(read_text("/nowhere"), FileError);
  BOOST_CHECK_THROW(read_text("/tmp"), FileError);
  BOOST_CHECK_THROW(read_text("/proc/self/mem"), FileError);  // EIO at the first byte, where nothing is mapped
}

BOOST_AUTO_TEST_CASE(words_between_blanks) {
  BOOST_CHECK((examples::split_blanks("  a\tbc \r\n") == std::vector<std::string_view>{"a", "bc"}));
  BOOST_CHECK(examples::split_blanks(" \n").empty());
}

BOOST_AUTO_TEST_CASE(vocabulary) {
  const Vocabulary v{"a", "b", "<eos>"};
  BOOST_CHECK_EQUAL(v.size(), 3);
  BOOST_CHECK_EQUAL(v.id("b"), 1);
  BOOST_CHECK_EQUAL(v.text(std::vector<int>{0, 2}), "a <eos>");
  BOOST_CHECK(v.contains("a") && !v.contains(""));
  BOOST_CHECK_THROW(v.id("c"), IndexError);
  BOOST_CHECK_THROW(v.token(3), IndexError);
  BOOST_CHECK_THROW(v.token(-1), IndexError);
  BOOST_CHECK_THROW((Vocabulary{"a", "a"}), ArgumentError);
  BOOST_CHECK_THROW((Vocabulary{""}), ArgumentError);
}

// The end of standard input is recognised, whatever an earlier call has left in errno.
BOOST_AUTO_TEST_CASE(standard_input_ends) {
  const TextFile file("ab\nc");
  BOOST_REQUIRE(std::freopen(file.path.c_str(), "r", stdin));
  TextReader reader;
  errno = EINTR;
  BOOST_CHECK_EQUAL(reader.next(), "ab\nc");
  errno = EINTR;
  BOOST_CHECK_EQUAL(reader.next(), "");
}

// Only a byte order mark at the start of a file is dropped, not one at the start of a later piece.
BOOST_AUTO_TEST_CASE(later_byte_order_marks_are_text) {
  std::string content;
  for (int i = 0; i < 300'000; ++i) content += "\xef\xbb\xbf";
  BOOST_CHECK(read_text(TextFile(content).path) == content.substr(3));
}

// The digest of data depends on every number, including the last.
BOOST_AUTO_TEST_CASE(digests_are_of_every_number) {
  const std::vector<int> numbers(9, 3);
  std::vector<std::string> seen{digest_of(numbers)};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::vector<int> changed = numbers;
    changed[i] = 4;
    seen.push_back(digest_of(changed));
    BOOST_CHECK_EQUAL(std::count(seen.begin(), seen.end(), seen.back()), 1);
  }
}

// and on where each part of them ends.
BOOST_AUTO_TEST_CASE(digests_are_of_every_part) {
  using Texts = std::vector<std::string>;
  using Sequences = std::vector<std::vector<int>>;
  BOOST_CHECK_NE(digest_of(Texts{"a", "b"}, Texts{"c"}), digest_of(Texts{"a"}, Texts{"b", "c"}));
  BOOST_CHECK_NE(digest_of(Texts{"a", "b"}), digest_of(Texts{std::string("a\0b", 3)}));
  BOOST_CHECK_NE(digest_of(Sequences{{1}, {2}}, Sequences{{3}}), digest_of(Sequences{{1}}, Sequences{{2}, {3}}));
  const std::vector<real> values{1, 2, 3, 4, 5, 6};
  BOOST_CHECK_NE(digest_of(Features({2}, values)), digest_of(Features({3}, values)));
  BOOST_CHECK_NE(digest_of(Features({1, 3}, values)), digest_of(Features({3}, values)));
}
