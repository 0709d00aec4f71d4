// Attention maps as text, as SVG and as NumPy arrays.
#include "app/attention_pictures.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <iostream>
#include <sstream>

using namespace test;
using examples::AttentionLabels;

namespace {

// Two heads, two queries, three keys.
const seppo::AttentionMap kMap{
    "decoder.0.cross_attn", {1, 2, 2, 3}, {1, 0, 0, 0.5f, 0.5f, 0, 0, 0, 1, 0.25f, 0.25f, 0.5f}};
const AttentionLabels kLabels{{"a", "<b>"}, {"x", "y", "z"}};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(characters) {
  BOOST_CHECK_EQUAL(examples::attention_text(kMap, 0, kLabels),
                    "decoder.0.cross_attn, head 0: rows are outputs, columns inputs; ' ' is 0, '@' is 1\n"
                    "       x y z \n"
                    "   a | @     |\n"
                    " <b> | + +   |\n");
  // longer labels make wider columns
  const std::string wide = examples::attention_text(kMap, 1, {{"first", "é"}, {"alpha", "b", "c"}});
  BOOST_CHECK_EQUAL(wide.substr(wide.find('\n')),
                    "\n       alph    b    c \nfirs |              @ |\n   é |    :    :    + |\n");
}

// Names that occur once stay as they are; of others, rows and columns tell which.
BOOST_AUTO_TEST_CASE(equal_names_have_their_positions) {
  const AttentionLabels narrow{{"7", "7"}, {"x", "y", "x"}}, wide{{"end", "7"}, {"add", "POSITIVE", "POSITIVE"}};
  const std::string text = examples::attention_text(kMap, 1, narrow), words = examples::attention_text(kMap, 1, wide);
  BOOST_CHECK_EQUAL(text.substr(text.find('\n')), R"(
           x y x 
     place 1   3 
   7 (1) |     @ |
   7 (2) | : : + |
)");
  BOOST_CHECK_EQUAL(words.substr(words.find('\n')), R"(
        add POSI POSI 
 place         2    3 
 end |              @ |
   7 |    :    :    + |
)");
  const std::string svg = examples::attention_svg(kMap, narrow);
  BOOST_CHECK_EQUAL(count(svg, "<title>7 (2) looks at x (3): 0.500</title>"), 1);
  BOOST_CHECK_EQUAL(count(svg, "<title>7 (2) looks at y: 0.500</title>"), 1);
  BOOST_CHECK_EQUAL(count(svg, ">x (1)</text>"), 2);
}

// Narrow columns have no room for two digits side by side.
BOOST_AUTO_TEST_CASE(positions_in_narrow_columns_stand_upright) {
  const seppo::AttentionMap map{"encoder", {1, 1, 1, 11}, std::vector<float>(11, 1)};
  const std::string text =
      examples::attention_text(map, 0, {{"q"}, {"a", "a", "c", "d", "e", "f", "g", "h", "i", "j", "a"}});
  BOOST_CHECK_EQUAL(text.substr(text.find('\n')), R"(
       a a c d e f g h i j a 
 place                     1 
       1 2                 1 
   q | @ @ @ @ @ @ @ @ @ @ @ |
)");
}

// '@' and full colour stand for the largest weight of the map, and the legend gives its value.
BOOST_AUTO_TEST_CASE(shades_are_of_the_largest_weight) {
  seppo::AttentionMap pale = kMap;
  for (float& w : pale.weights) w *= 0.2f;
  const std::string text = examples::attention_text(pale, 0, kLabels);
  BOOST_CHECK_NE(text.find("'@' is 0.2\n"), std::string::npos);
  BOOST_CHECK_EQUAL(text.substr(text.find('\n')), "\n       x y z \n   a | @     |\n <b> | + +   |\n");
  const std::string svg = examples::attention_svg(pale, kLabels);
  BOOST_CHECK_EQUAL(count(svg, "<title>a looks at x: 0.200</title><rect class=\"w\""), 1);
  BOOST_CHECK_EQUAL(count(svg, "fill-opacity=\"1.000\""), 2);
  BOOST_CHECK_EQUAL(count(svg, ">0.200, the largest weight of these heads<"), 1);
  for (float& w : pale.weights) w = 0;
  BOOST_CHECK_EQUAL(count(examples::attention_svg(pale, kLabels), "nan"), 0);
}

BOOST_AUTO_TEST_CASE(svg) {
  const std::string svg = examples::attention_svg(kMap, kLabels);
  BOOST_CHECK(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  BOOST_CHECK_EQUAL(count(svg, "<title>"), 12);
  BOOST_CHECK_EQUAL(count(svg, "<title>a looks at x: 1.000</title>"), 1);
  BOOST_CHECK_EQUAL(count(svg, "<title>&lt;b&gt; looks at z: 0.500</title>"), 1);
  BOOST_CHECK_EQUAL(count(svg, "<b>"), 0);
  BOOST_CHECK_EQUAL(count(svg, "fill-opacity=\"0.250\""), 2);
  BOOST_CHECK_EQUAL(count(svg, "<g>"), count(svg, "</g>"));
}

// Where a decoder looks when it writes a token, and where it could look.
BOOST_AUTO_TEST_CASE(rows_are_named_by_the_tokens_written) {
  const seppo::Vocabulary vocabulary{"a", "b", "BOS", "EOS"};
  const std::vector<int> source{0, 1, 0}, read{2, 1}, written{1, 3};
  const auto labels = examples::encoder_decoder_labels({vocabulary, source}, {vocabulary, read}, {vocabulary, written});
  const auto check = [&](const std::string& name, const Words& queries, const Words& keys) {
    const AttentionLabels found = labels({name, {}, {}});
    BOOST_CHECK_MESSAGE(found.queries == queries && found.keys == keys, name);
  };
  check("encoder.0.self_attn", {"a", "b", "a"}, {"a", "b", "a"});
  check("decoder.0.self_attn", {"b", "EOS"}, {"BOS", "b"});
  check("decoder.0.cross_attn", {"b", "EOS"}, {"a", "b", "a"});
}

BOOST_AUTO_TEST_CASE(arrays_for_numpy) {
  const Folder folder("pictures");
  std::ostringstream printed;
  std::streambuf* const before = std::cout.rdbuf(printed.rdbuf());
  const examples::AttentionOutput output{true, folder.path / "maps"};
  output.prepare();
  output.show({"", "", "", {kMap, kMap}, [](const auto&) { return kLabels; }});
  std::cout.rdbuf(before);
  BOOST_CHECK_EQUAL(count(printed.str(), "head 1"), 2);
  BOOST_CHECK(fs::exists(folder.path / "maps/decoder.0.cross_attn.svg"));
  const std::string npy = read(folder.path / "maps/decoder.0.cross_attn.npy");
  BOOST_CHECK_EQUAL(npy.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(npy[8])) +
                      256 * static_cast<std::size_t>(static_cast<unsigned char>(npy[9]));
  BOOST_CHECK_EQUAL((10 + length) % 64, 0);
  BOOST_CHECK(npy.substr(10).starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,2,3,), }"));
  BOOST_CHECK_EQUAL(npy[9 + length], '\n');
  BOOST_REQUIRE_EQUAL(npy.size(), 10 + length + 12 * sizeof(float));
  BOOST_CHECK_EQUAL(std::memcmp(npy.data() + 10 + length, kMap.weights.data(), 12 * sizeof(float)), 0);
}
