// llm: training on conversations and on documents.
// needs: programs: llm
#include "llm/conversations.h"
#include "llm/documents.h"
#include "support/llm_models.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace test;

namespace {

const char* const kTemplate =
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + '<|endoftext|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}";

void write_chatting_model(const Folder& folder) {
  write_model(folder, "m");
  folder.write("m/chat_template.jinja", kTemplate);
}

std::string line_of(const std::string& question, const std::string& answer) {
  return R"({"messages": [{"role": "user", "content": ")" + question + R"("}, {"role": "assistant", "content": ")" +
         answer + R"("}], "source": 1})" + "\n";
}

void write_talks(const Folder& folder) {
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += line_of("hi", "yo" + std::to_string(i));
  folder.write("t.jsonl", lines + "\n");
}

const Words kTune{"llm",      "finetune", "--model",       "m", "--chat",       "--data", "t.jsonl", "--window", "8",
                  "--epochs", "1",        "--epoch-steps", "2", "--log-format", "none",   "--out",   "f"};

}  // namespace

BOOST_AUTO_TEST_CASE(answers_are_what_is_predicted) {
  const Folder folder("llm");
  write_chatting_model(folder);
  write_talks(folder);
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const llm::Text all = llm::read_conversations(folder.path / "t.jsonl", model, llm::LossOn::all);
  const llm::Text some = llm::read_conversations(folder.path / "t.jsonl", model, llm::LossOn::answers);
  std::vector<int> tokens, targets;
  for (int i = 0; i < 30; ++i) {
    const std::string question = "u:hi", mark = "a:", answer = "yo" + std::to_string(i);
    for (const auto& [part, is_answer] : {std::pair{question, false}, {mark, false}, {answer, true}}) {
      for (const char c : part) targets.push_back(is_answer ? c : seppo::kNoTarget);
      tokens.insert(tokens.end(), part.begin(), part.end());
      if (part == mark) continue;
      tokens.push_back(256);
      targets.push_back(is_answer ? 256 : seppo::kNoTarget);
    }
  }
  BOOST_TEST(all.tokens == tokens, boost::test_tools::per_element());
  BOOST_CHECK(all.targets.empty());
  BOOST_TEST(some.tokens == tokens, boost::test_tools::per_element());
  BOOST_TEST(some.targets == targets, boost::test_tools::per_element());
}

// Windows that are shown stand side by side, whatever is learnt of them.
BOOST_AUTO_TEST_CASE(windows_that_are_shown_do_not_overlap) {
  const Folder folder("llm");
  write_chatting_model(folder);
  write_talks(folder);
  const auto shown = [&](const std::string& loss_on) {
    const Result r = folder.run({"llm", "data", "--tokenizer", "m", "--chat", "--data", "t.jsonl", "--window", "16",
                                 "--loss-on", loss_on, "--head", "1000"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return r.out;
  };
  BOOST_CHECK_EQUAL(shown("answers"), shown("all"));  // each has a part of an answer
}

// The loss of several targets is the sum of theirs, each computed alone; windows without one are left out.
BOOST_AUTO_TEST_CASE(only_targets_count) {
  const Folder folder("llm");
  write_model(folder, "m");
  const llm::Folder model = llm::open_folder(folder.path / "m");
  std::vector<int> tokens;
  for (int i = 0; i < 60; ++i) tokens.push_back(i * i % 251);
  std::vector<int> targets(tokens.size(), seppo::kNoTarget);
  double sum = 0;
  for (const std::size_t at : {3U, 4U, 40U, 59U}) {
    std::vector<int> one(tokens.size(), seppo::kNoTarget);
    one[at] = targets[at] = tokens[at];
    const auto score = seppo::score_windows([&] { return model.model; }, tokens, 8, 8, one);
    BOOST_CHECK_EQUAL(score.tokens, 1);
    sum += score.nats;
  }
  const auto score = seppo::score_windows([&] { return model.model; }, tokens, 8, 8, targets);
  BOOST_CHECK_EQUAL(score.tokens, 4);
  BOOST_CHECK_CLOSE(score.nats, sum, 1e-3);
  const llm::Windows windows({tokens, targets}, 8, 8);
  const std::vector<int> begins{0, 32, 56};  // 3 and 4, 40, 59
  BOOST_TEST(windows.begins == begins, boost::test_tools::per_element());
  const auto batch = windows.pick(std::vector<int>{0, 1, 2});
  const auto loss = seppo::window_loss(model.model, batch.tokens, batch.starts, batch.length, batch.targets);
  BOOST_CHECK_EQUAL(loss.count, 4);
  BOOST_CHECK_CLOSE(static_cast<double>(loss.loss.item()), sum, 1e-3);
  seppo::tape().clear();

  const llm::Windows each({tokens, targets}, 8, 1);
  std::size_t expected = 0;
  for (std::ptrdiff_t begin = 0; begin + 8 < std::ssize(tokens); ++begin)
    expected += std::any_of(targets.begin() + begin + 1, targets.begin() + begin + 9,
                            [](int token) { return token != seppo::kNoTarget; });
  BOOST_CHECK_EQUAL(each.size(), expected);
}

BOOST_AUTO_TEST_CASE(a_model_is_trained_on_conversations) {
  const Folder folder("llm");
  write_chatting_model(folder);
  write_talks(folder);
  std::string out;
  for (const char* loss_on : {"all", "answers"}) {
    const Result r = folder.run(with(kTune, {"--loss-on", loss_on, "--overwrite"}));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    BOOST_CHECK_NE(r.out, out);
    BOOST_CHECK(r.out.find("llm chat --model f\n") != std::string::npos);
    out = r.out;
  }
  BOOST_CHECK_EQUAL(read(folder.path / "f/hf/chat_template.jinja"), kTemplate);
  BOOST_CHECK_EQUAL(folder.run({"llm", "chat", "--model", "f", "--max-tokens", "3"}, "h\n").code, 0);
  check_refused(folder, {"llm", "finetune", "--model", "m", "--data", "t.jsonl", "--loss-on", "answers", "--out", "g"},
                2, "--loss-on: needs --chat");
}

// A new model has none; its tokenizer may.
BOOST_AUTO_TEST_CASE(a_template_comes_with_the_tokenizer) {
  const Folder folder("llm");
  write_model(folder, "m");
  write_talks(folder);
  for (const char* command : {"train", "data"}) {
    const Words chat{"llm", command, "--chat", "--data", "t.jsonl"};
    check_refused(folder, chat, 2, "--tokenizer: a folder with a template for chats is needed");
    check_refused(folder, with(chat, {"--tokenizer", "m"}), 2, "--tokenizer: 'm' has no template for chats");
  }
}

BOOST_AUTO_TEST_CASE(documents_end_with_the_end_token) {
  const Folder folder("llm");
  write_model(folder, "m");
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const auto encoded = [&](const char* text) { return llm::encode_documents(model, text, "---", {}); };
  const std::vector<int> two{'a', '\n', 'b', 256, 'c', 256};
  for (const char* text : {"a\nb\n---\nc\n", "a\nb\n---\nc", "a\nb\n---\nc\n---", "---\na\nb\n---\n---\nc\n---\n",
                           "a\nb\r\n---\r\nc\r\n", "---\r\na\nb\r\n---\r\nc\r\n---\r\n"})
    BOOST_TEST(encoded(text) == two, boost::test_tools::per_element());
  const std::vector<int> none{'a', '-', '-', '-', '\n', '-', '-', '-', '-', 256};
  BOOST_TEST(encoded("a---\n----") == none, boost::test_tools::per_element());
  folder.write("t.txt", "some words\n---\nand some more of them\n---\nand so on, and so on\n");
  const Words tune = with({"llm", "finetune", "--model", "m", "--separator=---", "--out", "f"}, kBrief);
  BOOST_CHECK_EQUAL(folder.run(tune).code, 0);
}

BOOST_AUTO_TEST_CASE(what_is_no_conversation_is_named) {
  const Folder folder("llm");
  write_chatting_model(folder);
  const auto refused = [&](const std::string& line, const std::string& part) {
    folder.write("t.jsonl", line_of("hi", "yo") + " \n" + line + "\n");
    check_refused(folder, kTune, 1, "t.jsonl:3" + part);
  };
  const auto talk = [](const std::string& message) { return "{\"messages\": [" + message + "]}"; };
  refused("hello", ":1:1");
  for (const char* option : {"--bos=never", "--special-tokens"})
    check_refused(folder, with(kTune, {option}), 2, "cannot be given with --chat");
  refused("{}", ": has no list 'messages'");
  refused("[]", ": has no list 'messages'");
  refused(talk(""), ": has no list 'messages'");
  refused(talk(R"({"role": "user"})"), ": a message without the text 'content'");
  refused(talk(R"({"role": "user", "content": [1]})"), ": a message without the text 'content'");
  refused(talk(R"({"role": "user", "content": "a", "tool_calls": [1]})"),
          ": 'tool_calls' of a message is not supported");
  folder.write("m/chat_template.jinja", "{% if messages|length > 2 %}{{ raise_exception('two at most') }}{% endif %}");
  refused(
      talk(R"({"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "user", "content": ""})"),
      ": m/chat_template.jinja:1: the template refuses this: two at most");
}
