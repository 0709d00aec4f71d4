// What is said so far is written as the model's template has it, and the model continues it.
#include "llm/chat.h"

#include "llm/conversations.h"
#include "llm/source.h"
#include "llm/text_output.h"
#include "llm/writing.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/models/decoding/kept_text.h>
#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llm {

using seppo::ChatMessage;

namespace {

// Messages, and who answers them.
class Conversation {
 public:
  Conversation(const Folder& folder, const examples::CommandLine& line, Writing& writing, const std::string& system)
      : folder_(folder), chat_(chat_template(folder)), line_(line), writing_(writing), read_(folder.model) {
    if (!system.empty()) messages_.push_back({"system", system});
    kept_ = messages_.size();
  }

  void reset() { messages_.resize(kept_); }

  // Writes what the model answers, token by token, and remembers both. Throws FormatError, and forgets the question, if
  // the template refuses it or it is too long.
  void answer(const std::string& question, TextOutput& output) {
    messages_.push_back({"user", question});
    try {
      continue_text(fitting_tokens(), output);
    } catch (...) {
      messages_.pop_back();
      throw;
    }
  }

 private:
  // What is said so far, if need be without the oldest questions and answers, so that a quarter of what the model sees
  // at once is left for the answer.
  std::vector<int> fitting_tokens() {
    const auto window = static_cast<std::size_t>(folder_.model.config.max_length);
    const std::size_t most = window - std::max<std::size_t>(1, window / 4);
    std::vector<ChatMessage> said = messages_;
    while (true) {
      std::vector<int> tokens = encode_chat(folder_.tokenizer, chat_.render(said, /*asks=*/true));
      seppo::check<seppo::FormatError>(!tokens.empty(), "the model's template writes nothing");
      if (tokens.size() <= most) {
        forget(messages_.size() - said.size());
        return tokens;
      }
      seppo::check<seppo::FormatError>(said.size() > kept_ + 2, "the message is too long: with what is written around ",
                                       "it, it has ", tokens.size(), " tokens, more than ", most, " of the ", window,
                                       " that the model sees at once");
      said.erase(oldest(said), oldest(said) + 2);
    }
  }

  std::vector<ChatMessage>::iterator oldest(std::vector<ChatMessage>& of) const {
    return of.begin() + static_cast<std::ptrdiff_t>(kept_);
  }

  void forget(std::size_t count) {
    if (count == 0) return;
    messages_.erase(oldest(messages_), oldest(messages_) + static_cast<std::ptrdiff_t>(count));
    std::cerr << fmt::format("note: the oldest {} messages are forgotten, the model sees {} tokens at once\n", count,
                             folder_.model.config.max_length);
  }

  void continue_text(std::vector<int> tokens, TextOutput& output) {
    const std::size_t given = tokens.size();
    seppo::Ragged start;
    start.add(tokens);
    seppo::GenerateOptions options = writing_.options(line_, folder_, given);
    if (folder_.tokenizer.eos) options.stop.push_back(*folder_.tokenizer.eos);
    options.hook = folder_.generation.hook(options.stop, given);
    const int room = folder_.model.config.max_length - static_cast<int>(given);
    const bool is_cut = room < options.max_tokens;
    options.max_tokens = std::min(options.max_tokens, room);
    options.seed += messages_.size();  // answers to equal questions may differ
    bool has_ended = false;
    const seppo::Inference guard;
    generate(read_.steps(), start, options, [&](std::size_t, int token) {
      has_ended = std::ranges::find(options.stop, token) != options.stop.end();
      if (has_ended) return;
      tokens.push_back(token);
      output.write(folder_.tokenizer.decode(tokens, tokens.size() - 1));
    });
    output.finish();
    std::cout << "\n" << std::flush;
    if (is_cut && !has_ended) std::cerr << "note: the answer is cut, since the model sees no more tokens at once\n";
    messages_.push_back({"assistant", folder_.tokenizer.decode(tokens, given)});
  }

  const Folder& folder_;
  seppo::ChatTemplate chat_;
  const examples::CommandLine& line_;
  Writing& writing_;
  seppo::KeptText read_;  // what is said is not computed again
  std::vector<ChatMessage> messages_;
  std::size_t kept_ = 0;  // of the messages, the system's
};

// Each line of standard input is a message, except for "/reset". At a terminal, what is wrong with one does not end the
// conversation.
void talk(Conversation& conversation) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  const bool is_asked = ::isatty(STDIN_FILENO) == 1;
  TextOutput output(std::cout, ::isatty(STDOUT_FILENO) == 1);
  const auto prompt = [&] {
    if (is_asked) std::cout << "> " << std::flush;
  };
  const auto answer = [&](const std::string& question) {
    try {
      conversation.answer(question, output);
    } catch (const seppo::Error& e) {
      if (!is_asked) throw;
      std::cerr << e.what() << "\n";
    }
  };
  prompt();
  const auto hear = [&](std::string_view line) {
    if (line == "/reset") {
      conversation.reset();
    } else if (!line.empty()) {
      answer(std::string(line));
    }
    prompt();
  };
  seppo::TextReader().for_each_line(hear, kLongest);
  if (is_asked) std::cout << "\n";
}

}  // namespace

int chat(const examples::Arguments& arguments) {
  Source source;
  Writing writing;
  std::string system;
  examples::CommandLine line(
      "llm chat --model DIR [options]",
      "A conversation with a model: each line of standard input is a message, and its answer is written before the "
      "next one is read. /reset begins anew, the end of input ends it. Messages are written as the model's own "
      "template "
      "has them; when they are more than it sees at once, the oldest are forgotten.");
  source.fields(line);
  source.weights_field(line);
  line("system", system, "the first message, which tells the model how to behave");
  writing.add_to(line);
  if (!line.parse(arguments)) return 0;

  const Folder folder = source.open();
  warn_of_what_is_not_done(folder);
  Conversation conversation(folder, line, writing, system);
  talk(conversation);
  return 0;
}

}  // namespace llm
