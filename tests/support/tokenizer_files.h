// Tokenizer files made up for tests, random texts, and merging by a naive loop over strings.
#pragma once

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/core/utf8.h>

#include "support/program.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace test {

using seppo::character_length;
using seppo::Purpose;
using seppo::RandomStream;
using Strings = std::vector<std::string>;

struct Random {
  RandomStream stream{1, Purpose::test};
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(stream.below(static_cast<std::uint32_t>(n))); }
  const std::string& one_of(const Strings& words) { return words[below(words.size())]; }
};

// Characters of one to four bytes, many kinds of white space, and bytes that are not valid UTF-8.
inline const Strings kAtoms{"a",
                            "b",
                            "ab",
                            "e",
                            " ",
                            " ",
                            "  ",
                            "\t",
                            "\n",
                            "\r\n",
                            "'s",
                            "'ll",
                            "7",
                            "42",
                            "!",
                            "?!",
                            "é",
                            "ß",
                            "→",
                            "日本",
                            "\u00a0",
                            "\u3000",
                            "\u200d",
                            "😀",
                            "👩\u200d👧",
                            "\xff",
                            "\xc3",
                            "\xed\xa0\x80",
                            std::string(1, '\0'),
                            "\x7f"};

inline std::string random_text(Random& random, std::size_t most, const Strings& atoms = kAtoms) {
  std::string text;
  for (std::size_t n = random.below(most); n > 0; --n) text += random.one_of(atoms);
  return text;
}

inline Strings characters_of(std::string_view text) {
  Strings all;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, character_length(text));
    all.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return all;
}

// Quadratic: finds the best pair of all, merges it, and starts over.
using Order = std::function<std::optional<double>(const std::string&, const std::string&)>;
inline Strings merged(Strings parts, const Order& order) {
  for (;;) {
    std::optional<double> best;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      if (const auto found = order(parts[i], parts[i + 1]); found && (!best || *found < *best)) best = found, at = i;
    if (!best) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// ---- SentencePiece --------------------------------------------------------------------------------

struct Piece {
  std::string text;
  float score;
};

inline std::string bytes_of(auto value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
inline std::string entry(const Piece& piece) {
  return bytes_of(piece.score) + bytes_of(static_cast<int>(piece.text.size())) + piece.text;
}
inline std::string file_of(const std::vector<Piece>& pieces, int longest = 64) {
  std::string file = bytes_of(longest);
  for (const char* mark : {"<unk>", "\n<s>\n", "\n</s>\n"}) file += entry({mark, 0});
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", static_cast<unsigned>(byte));
    file += entry({name.data(), 0});
  }
  for (const Piece& piece : pieces) file += entry(piece);
  return file;
}

// ---- Byte-level -----------------------------------------------------------------------------------

// GPT-2's alphabet as its authors define it: these bytes map to the same code point, the others to 256 and above.
inline std::string shown(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    unsigned code = 256;
    for (int b = 0; b <= static_cast<unsigned char>(c); ++b) {
      const bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      if (b == static_cast<unsigned char>(c))
        code = itself ? static_cast<unsigned>(b) : code;
      else
        code += !itself;
    }
    if (code < 0x80)
      text += static_cast<char>(code);
    else
      text += {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  }
  return text;
}

struct BpeFiles {
  Strings tokens;
  std::vector<std::pair<std::string, std::string>> merges;

  nlohmann::json vocabulary() const {
    nlohmann::json all;
    for (std::size_t i = 0; i < tokens.size(); ++i) all[shown(tokens[i])] = i;
    return all;
  }
  Strings lines() const {
    Strings all;
    for (const auto& [left, right] : merges) all.push_back(shown(left) + " " + shown(right));
    return all;
  }
  nlohmann::json document() const {
    return {{"normalizer", nullptr},
            {"added_tokens", {{{"id", tokens.size()}, {"content", "<|end of text|>"}, {"special", true}}}},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary()}, {"merges", lines()}}}};
  }
  void write(const Folder& folder) const {
    folder.write("vocab.json", vocabulary().dump());
    std::string text = "#version: 0.2\n";
    for (const std::string& line : lines()) text += line + "\n";
    folder.write("merges.txt", text);
  }
  std::vector<int> encode(const Strings& words) const {
    std::vector<int> ids;
    for (const std::string& word : words) {
      Strings bytes;
      for (const char c : word) bytes.emplace_back(1, c);
      const auto order = [&](const std::string& left, const std::string& right) -> std::optional<double> {
        const auto found = std::ranges::find(merges, std::pair(left, right));
        return found == merges.end() ? std::nullopt : std::optional<double>(found - merges.begin());
      };
      for (const std::string& part : merged(bytes, order))
        ids.push_back(static_cast<int>(std::ranges::find(tokens, part) - tokens.begin()));
    }
    return ids;
  }
};

// Bytes in random order, and random merges.
inline BpeFiles random_bpe(Random& random, std::size_t merges) {
  BpeFiles bpe;
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.emplace_back(1, static_cast<char>(byte));
  for (std::size_t i = 255; i > 0; --i) std::swap(bpe.tokens[i], bpe.tokens[random.below(i + 1)]);
  Strings parts{"a", "b", "e", " ", "'", "s", "\n", "\xc3", "\xa9", "\xe6", "\x97", "\xa5"};
  while (bpe.merges.size() < merges) {
    const auto left = random.one_of(parts), right = random.one_of(parts);
    if (std::ranges::find(bpe.tokens, left + right) != bpe.tokens.end()) continue;
    bpe.merges.emplace_back(left, right);
    bpe.tokens.push_back(left + right);
    parts.push_back(left + right);
  }
  return bpe;
}

inline void refused(const std::function<void()>& read, const std::string& part) {
  BOOST_CHECK_EXCEPTION(read(), seppo::FormatError, [&](const seppo::FormatError& e) {
    const std::string what = e.what();
    const bool is_fine =
        what.find(part) != std::string::npos && what.find('\n') == std::string::npos && what.size() < 300;
    if (!is_fine) BOOST_TEST_MESSAGE("'" << part << "' is not in: " << what);
    return is_fine;
  });
}

}  // namespace test
