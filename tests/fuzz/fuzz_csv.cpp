// Comma-separated values, against a parser that goes by the character, and sequences of ids. The first byte chooses.
#include "fuzz/fuzz.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/csv.h>
#include <seppo/nn/io/ragged_file.h>
#include <seppo/nn/io/table.h>

#include <optional>
#include <vector>

namespace {

using fuzz::require;
using seppo::FormatError;
using Records = std::vector<std::vector<std::string>>;

// The records, or nothing if the text breaks a rule.
class Naive {
 public:
  std::optional<Records> records(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool is_end = text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] == '\n'));
      if (text[i] == '\r' && is_end && i + 1 < text.size()) continue;  // of a CR LF
      if (is_end && !in_quotes_)
        end_record();
      else
        take(is_end ? '\n' : text[i], i + 1 < text.size() ? text[i + 1] : '\0');
      if (is_wrong_) return std::nullopt;
    }
    if (in_quotes_) return std::nullopt;
    if (!text.empty() && text.back() != '\n' && text.back() != '\r') end_record();
    return is_wrong_ ? std::nullopt : std::optional(records_);
  }

 private:
  void take(char c, char next) {
    if (is_escape_) {
      is_escape_ = false;
    } else if (in_quotes_) {
      if (c != '"')
        field_ += c;
      else if (next == '"') {
        field_ += '"';
        is_escape_ = true;
      } else {
        in_quotes_ = false;
        is_closed_ = true;
      }
    } else if (c == ',') {
      end_field();
    } else if (c == '"' && field_.empty() && !is_closed_) {
      in_quotes_ = true;
    } else {
      is_wrong_ = is_wrong_ || c == '"' || is_closed_;
      field_ += c;
    }
    is_empty_ = false;
  }
  void end_field() {
    fields_.push_back(std::exchange(field_, ""));
    is_closed_ = false;
  }
  void end_record() {
    end_field();
    if (!std::exchange(is_empty_, true) || columns_ == 1) {
      if (columns_ == 0) columns_ = fields_.size();
      is_wrong_ = is_wrong_ || fields_.size() != columns_;
      records_.push_back(fields_);
    }
    fields_.clear();
  }

  Records records_;
  std::vector<std::string> fields_;
  std::string field_;
  std::size_t columns_ = 0;
  bool in_quotes_ = false, is_closed_ = false, is_escape_ = false, is_empty_ = true, is_wrong_ = false;
};

bool is_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = seppo::character_length(text);
    if (length == 0 || text[0] == '\0') return false;
    text.remove_prefix(length);
  }
  return true;
}

void read_records(const std::filesystem::path& path, std::string_view text) {
  Records records;
  const bool is_refused = fuzz::refuses<FormatError>([&] {
    seppo::for_each_record(path, {.has_header = false}, [&](const seppo::CsvRecord& record) {
      records.emplace_back();
      for (std::size_t i = 0; i < record.size(); ++i) records.back().emplace_back(record[i]);
    });
  });
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::optional<Records> expected;
  if (is_text(text)) expected = Naive().records(text);
  require(is_refused == !expected, "refused by one parser alone");
  if (expected) require(records == *expected, "other records");
}

void read_columns(const std::filesystem::path& path) {
  fuzz::refuses<FormatError>([&] {
    const seppo::Table table =
        seppo::read_table(path, {.numbers = {{"1", 0}}, .categories = {{"2", ""}}, .format = {.has_header = false}});
    require(table.features({"1"}).size() == table.size() && table.ids("2").size() == table.size(), "columns differ");
    for (const int id : table.ids("2"))
      require(id >= 0 && static_cast<std::size_t>(id) < table.names("2").size(), "an id without a name");
  });
}

void read_ids(const std::filesystem::path& path) {
  fuzz::refuses<FormatError>([&] {
    const seppo::Ragged all = seppo::read_ragged(path, 10);
    for (const int id : all.tokens) require(id >= 0 && id < 10, "an id out of range");
    require(static_cast<std::size_t>(all.offsets.back()) == all.tokens.size(), "tokens in no sequence");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::MemoryFile memory;
  fuzz::Bytes bytes(std::string_view(reinterpret_cast<const char*>(data), size));
  const int choice = bytes.below(4);
  const std::string_view text = bytes.rest();
  const std::filesystem::path& path = memory.hold(text);
  if (choice == 3)
    read_ids(path);
  else if (choice == 2)
    read_columns(path);
  else
    read_records(path, text);
  return 0;
}
