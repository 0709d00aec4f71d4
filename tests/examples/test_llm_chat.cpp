// llm: conversations with a model, and training on them.
// needs: programs: llm
#define BOOST_TEST_MODULE llm_chat
#include "llm/chat.h"
#include "llm/documents.h"
#include "support/llm_models.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace test;
using nlohmann::json;

namespace {

const char* const kTemplate =
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + '<|endoftext|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}";

void write_chatting_model(const Folder& folder) {
  write_model(folder, "m");
  folder.write("m/chat_template.jinja", kTemplate);
}

}  // namespace

// Each answer continues what was said so far, as the template writes it.
BOOST_AUTO_TEST_CASE(a_conversation_is_continued) {
  const Folder folder("llm");
  write_chatting_model(folder);
  const Words how{"--model", "m", "--temperature", "0", "--max-tokens", "5"};
  const Result r = folder.run(with(with({"llm", "chat"}, how), {"--system", "be"}), "hi\n\nyo\n");
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);

  const llm::Folder model = llm::open_folder(folder.path / "m");
  const auto answer = [&](const std::vector<seppo::ChatMessage>& said) {
    seppo::Ragged start;
    start.add(seppo::encode_chat(model.tokenizer, llm::chat_template(model).render(said, true)));
    seppo::GenerateOptions options{.max_tokens = 5, .sampling = {.temperature = 0}, .stop = model.config.stops};
    options.stride = 8;
    std::vector<int> tokens = generate(model.model, start, options)[0];
    const bool has_stop = std::ranges::find(options.stop, tokens.back()) != options.stop.end();
    if (has_stop) tokens.pop_back();
    return model.tokenizer.decode(tokens);
  };
  const std::string first = answer({{"system", "be"}, {"user", "hi"}});
  const std::string second = answer({{"system", "be"}, {"user", "hi"}, {"assistant", first}, {"user", "yo"}});
  BOOST_CHECK_EQUAL(r.out, first + "\n" + second + "\n");
}

BOOST_AUTO_TEST_CASE(a_model_is_trained_on_conversations) {
  const Folder folder("llm");
  write_chatting_model(folder);
  std::string lines;
  for (int i = 0; i < 30; ++i)
    lines += R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo)" +
             std::to_string(i) + "\"}]}\n";
  folder.write("t.jsonl", lines + "\n" + R"([{"role": "user", "content": "end"}])" + "\n");
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const std::vector<int> tokens = llm::read_conversations(folder.path / "t.jsonl", model);
  std::vector<int> expected;
  for (const char* part : {"u:hi", "a:yo0", "u:hi", "a:yo1"}) {
    for (const char* c = part; *c != '\0'; ++c) expected.push_back(*c);
    expected.push_back(256);
  }
  BOOST_TEST(std::vector<int>(tokens.begin(), tokens.begin() + std::ssize(expected)) == expected,
             boost::test_tools::per_element());
  const Words tune{"llm",      "finetune", "--model",       "m", "--chat",       "--data", "t.jsonl", "--window", "8",
                   "--epochs", "1",        "--epoch-steps", "2", "--log-format", "none",   "--out",   "f"};
  const Result r = folder.run(tune);
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_EQUAL(read(folder.path / "f/hf/chat_template.jinja"), kTemplate);
  BOOST_CHECK_EQUAL(folder.run({"llm", "chat", "--model", "f", "--max-tokens", "3"}, "hi\n").code, 0);
}

BOOST_AUTO_TEST_CASE(documents_end_with_the_end_token) {
  const Folder folder("llm");
  write_model(folder, "m");
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const auto encoded = [&](const char* text) {
    return llm::encode_documents(model, text, "---", seppo::Bos::tokenizer);
  };
  const std::vector<int> two{'a', '\n', 'b', 256, 'c', 256};
  for (const char* text : {"a\nb\n---\nc\n", "a\nb\n---\nc", "---\na\nb\n---\n---\nc\n---\n"})
    BOOST_TEST(encoded(text) == two, boost::test_tools::per_element());
  const std::vector<int> none{'a', '-', '-', '-', '\n', '-', '-', '-', '-', 256};
  BOOST_TEST(encoded("a---\n----") == none, boost::test_tools::per_element());
  folder.write("t.txt", "some words\n---\nand some more of them\n---\nand so on, and so on\n");
  const Words tune = with({"llm", "finetune", "--model", "m", "--separator", "---", "--out", "f"}, kBrief);
  BOOST_CHECK_EQUAL(folder.run(tune).code, 0);
}

BOOST_AUTO_TEST_CASE(what_is_no_conversation_is_named) {
  const Folder folder("llm");
  write_chatting_model(folder);
  const Words tune{"llm", "finetune", "--model", "m", "--chat", "--data", "t.jsonl", "--out", "f"};
  const auto refused = [&](const std::string& line, const std::string& part) {
    folder.write("t.jsonl", "[{\"role\": \"user\", \"content\": \"hi\"}]\n" + line + "\n");
    check_refused(folder, tune, 1, "t.jsonl:2" + part);
  };
  refused("hello", ":1:1");
  refused("{}", ": has no list 'messages'");
  refused("[]", ": has no list 'messages'");
  refused(R"([{"role": "user"}])", ": a message without the text 'content'");
  refused(R"([{"role": "user", "content": [1]}])", ": a message without the text 'content'");
  refused(R"([{"role": "user", "content": "a", "tool_calls": [1]}])", ": 'tool_calls' of a message is not supported");

  folder.write("m/chat_template.jinja", "{{ messages | tojson(3) }}{% include 'more' %}");
  check_refused(folder, {"llm", "chat", "--model", "m"}, 1, "m/chat_template.jinja:1: {% include 'more' %}: ");
  fs::remove(folder.path / "m/chat_template.jinja");
  check_refused(folder, {"llm", "chat", "--model", "m"}, 2, "--model: 'm' has no template for chats");
}
