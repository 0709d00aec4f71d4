// One function for each step; those that write other text than they read collect it first.
#include "pre_tokenizers.h"

#include "alphabet.h"

#include <algorithm>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

struct Part {
  std::string_view text;
  bool is_match;
};

// The matches of the pattern and what is between them.
void find_parts(const SplitText& split, std::string_view text, Matcher& matcher, std::vector<Part>& parts) {
  std::size_t done = 0;
  parts.clear();
  split.pattern.each(text, matcher, [&](std::size_t begin, std::size_t end) {
    if (done < begin) parts.push_back({text.substr(done, begin - done), split.is_inverted});
    parts.push_back({text.substr(begin, end - begin), !split.is_inverted});
    done = end;
  });
  if (done < text.size()) parts.push_back({text.substr(done), split.is_inverted});
}

// Two parts that follow each other.
std::string_view joined(std::string_view left, std::string_view right) {
  return {left.data(), left.size() + right.size()};
}

// Joins matches with the part before, and contiguous parts of one kind, or pushes the part.
void add_forward(Matches matches, const Part& part, bool was_match, std::vector<std::string_view>& words,
                 bool is_first) {
  const bool joins = matches == Matches::contiguous ? part.is_match == was_match : part.is_match && !was_match;
  if (joins && !is_first) {
    words.back() = joined(words.back(), part.text);
  } else {
    words.push_back(part.text);
  }
}

void merge_forward(Matches matches, std::span<const Part> parts, std::vector<std::string_view>& words) {
  bool was_match = false;
  for (const Part& part : parts) {
    add_forward(matches, part, was_match, words, &part == parts.data());
    was_match = part.is_match;
  }
}

void merge_with_next(std::span<const Part> parts, std::vector<std::string_view>& words) {
  const auto begin = static_cast<std::ptrdiff_t>(words.size());
  bool was_match = false;
  for (std::size_t i = parts.size(); i-- > 0;) {
    const bool joins = parts[i].is_match && !was_match && i + 1 < parts.size();
    if (joins) {
      words.back() = joined(parts[i].text, words.back());
    } else {
      words.push_back(parts[i].text);
    }
    was_match = parts[i].is_match;
  }
  std::reverse(words.begin() + begin, words.end());
}

void add_words(Matches matches, std::span<const Part> parts, std::vector<std::string_view>& words) {
  switch (matches) {
    case Matches::isolated:
      for (const Part& part : parts) words.push_back(part.text);
      break;
    case Matches::removed:
      for (const Part& part : parts)
        if (!part.is_match) words.push_back(part.text);
      break;
    case Matches::merged_with_next:
      merge_with_next(parts, words);
      break;
    case Matches::merged_with_previous:
    case Matches::contiguous:
      merge_forward(matches, parts, words);
      break;
  }
}

// Replaces the words by others that are parts of them.
void replace_words(Words& all, std::vector<std::string_view>&& words) {
  std::erase_if(words, [](std::string_view word) { return word.empty(); });
  const bool keeps_first = !words.empty() && !all.words.empty() && words[0].data() == all.words[0].data();
  all.is_first = all.is_first && keeps_first;
  all.words.swap(words);
}

// Text that is written anew, word by word.
class Rewriting {
 public:
  std::string text = {};

  void end_word() { ends_.push_back(text.size()); }

  void replace(Words& all) {
    all.changed.swap(text);
    all.words.clear();
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      if (begin < end) all.words.push_back(std::string_view(all.changed).substr(begin, end - begin));
      begin = end;
    }
  }

 private:
  std::vector<std::size_t> ends_;
};

struct Step {
  Words& all;
  Matcher& matcher;

  void operator()(const SplitText& split) const {
    std::vector<Part> parts;
    std::vector<std::string_view> words;
    for (const std::string_view word : all.words) {
      find_parts(split, word, matcher, parts);
      add_words(split.matches, parts, words);
    }
    replace_words(all, std::move(words));
  }

  void operator()(const Metaspace& m) const {
    Rewriting made;
    bool is_first = all.is_first;
    for (std::string_view word : all.words) {
      const bool begins = !word.starts_with(' ') && !word.starts_with(m.mark);
      const bool is_prefixed =
          m.prefix == Metaspace::Prefix::always || (m.prefix == Metaspace::Prefix::first && is_first);
      if (begins && is_prefixed && !is_behind_byte(word)) made.text += m.mark;
      write_marks(m, word, made);
      made.end_word();
      is_first = false;
    }
    made.replace(all);
  }

  void operator()(const ByteLevel& level) const {
    if (level.adds_space) add_spaces();
    for (const Pattern& pattern : level.words) (*this)(SplitText{pattern});
    if (!level.is_written) return;
    Rewriting made;
    for (const std::string_view word : all.words) {
      made.text += in_alphabet(word);
      made.end_word();
    }
    made.replace(all);
  }

  void operator()(const CutAtMarks& cut) const {
    std::vector<std::string_view> words;
    for (std::string_view word : all.words) {
      while (!word.empty()) {
        const std::size_t length = behind_marks_and_text(word, cut.mark);
        words.push_back(word.substr(0, length));
        word.remove_prefix(length);
      }
    }
    replace_words(all, std::move(words));
  }

 private:
  bool is_behind_byte(std::string_view word) const {
    return all.place.is_behind_byte && word.data() == all.words[0].data();
  }

  static void write_marks(const Metaspace& m, std::string_view word, Rewriting& made) {
    while (!word.empty()) {
      const bool is_blank = word.starts_with(' ');
      const bool is_mark = is_blank || word.starts_with(m.mark);
      const std::size_t length = is_mark && !is_blank ? m.mark.size() : 1;
      if (is_mark && m.splits) made.end_word();
      made.text.append(is_blank ? std::string_view(m.mark) : word.substr(0, length));
      word.remove_prefix(length);
    }
  }

  void add_spaces() const {
    Rewriting made;
    for (const std::string_view word : all.words) {
      if (!word.starts_with(' ') && !is_behind_byte(word)) made.text += ' ';
      made.text += word;
      made.end_word();
    }
    made.replace(all);
  }

  static std::size_t behind_marks_and_text(std::string_view word, std::string_view mark) {
    std::size_t at = 0;
    while (word.substr(at).starts_with(mark)) at += mark.size();
    return std::min(word.find(mark, at), word.size());
  }
};

}  // namespace

void pre_tokenize(std::span<const PreTokenizer> steps, Words& words, Matcher& matcher) {
  std::erase_if(words.words, [](std::string_view word) { return word.empty(); });
  for (const PreTokenizer& step : steps) std::visit(Step{words, matcher}, step);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
