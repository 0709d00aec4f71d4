// llm: conversations with a model.
// needs: programs: llm
#include "llm/conversations.h"
#include "support/llm_models.h"

#include <seppo/models/decoding/generate.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

using namespace test;
using nlohmann::json;

namespace {

using Talk = std::vector<seppo::ChatMessage>;

const char* const kTemplate =
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + '<|endoftext|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}";

// Sees 64 tokens at once.
void write_chatting_model(const Folder& folder) {
  json config = kLlama;
  config["max_position_embeddings"] = 64;
  write_model(folder, "m", config);
  folder.write("m/chat_template.jinja", kTemplate);
}

const Words kStart{"llm", "chat", "--model", "m"};
const Words kChat = with(kStart, {"--temperature", "0", "--max-tokens", "5"});

std::vector<int> tokens_of(const llm::Folder& model, const Talk& said) {
  return seppo::encode_chat(model.tokenizer, llm::chat_template(model).render(said, true));
}

// What the model says next, by the library alone.
std::string answer(const llm::Folder& model, const Talk& said, int max_tokens = 5) {
  seppo::Ragged start;
  start.add(tokens_of(model, said));
  const seppo::GenerateOptions options{
      .max_tokens = max_tokens, .sampling = {.temperature = 0}, .stop = model.config.stops, .stride = 32};
  std::vector<int> tokens = generate(model.model, start, options)[0];
  if (std::ranges::find(options.stop, tokens.back()) != options.stop.end()) tokens.pop_back();
  return model.tokenizer.decode(tokens);
}

}  // namespace

// Each answer continues what was said so far, as the template writes it.
BOOST_AUTO_TEST_CASE(a_conversation_is_continued) {
  const Folder folder("llm");
  write_chatting_model(folder);
  const Result r = folder.run(with(kChat, {"--system", "be"}), "hi\n\nyo\n/reset\nyo\n");
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const std::string first = answer(model, {{"system", "be"}, {"user", "hi"}});
  const std::string second = answer(model, {{"system", "be"}, {"user", "hi"}, {"assistant", first}, {"user", "yo"}});
  const std::string third = answer(model, {{"system", "be"}, {"user", "yo"}});
  BOOST_CHECK_EQUAL(r.out, first + "\n" + second + "\n" + third + "\n");
  BOOST_CHECK_EQUAL(folder.run(kChat, "").out, "");
}

// 48 of the 64 tokens are for what was said.
BOOST_AUTO_TEST_CASE(the_oldest_messages_are_forgotten) {
  const Folder folder("llm");
  write_chatting_model(folder);
  const std::string one(20, 'x'), two(25, 'y');
  const Result r = folder.run(with(kChat, {"--system", "be"}), one + "\n" + two + "\n");
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK(r.err.find("note: the oldest 2 messages are forgotten, the model sees 64 tokens at once") != r.err.npos);
  const llm::Folder model = llm::open_folder(folder.path / "m");
  BOOST_CHECK_EQUAL(r.out, answer(model, {{"system", "be"}, {"user", one}}) + "\n" +
                               answer(model, {{"system", "be"}, {"user", two}}) + "\n");

  const Result full = folder.run(kChat, std::string(50, 'x') + "\n");
  BOOST_CHECK_EQUAL(full.code, 1);
  BOOST_CHECK(full.err.find("the message is too long") != full.err.npos);
  BOOST_CHECK_EQUAL(full.out, "");
}

// What was said and the answer are seen at once: of a long one, as much is written as there is room for.
BOOST_AUTO_TEST_CASE(an_answer_ends_where_the_model_sees_no_more) {
  const Folder folder("llm");
  write_chatting_model(folder);
  const std::string question(30, 'x');
  const Result r = folder.run(with(kStart, {"--temperature", "0", "--max-tokens", "100"}), question + "\n");
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const int room = 64 - static_cast<int>(tokens_of(model, {{"user", question}}).size());
  BOOST_REQUIRE(room > 16);
  BOOST_CHECK_EQUAL(r.out, answer(model, {{"user", question}}, room) + "\n");
  BOOST_CHECK_EQUAL(r.err, "note: the answer is cut, since the model sees no more tokens at once\n");
}

// The token that ends a turn may be known to the tokenizer alone: here it is a letter, by which the answer is cut.
BOOST_AUTO_TEST_CASE(the_tokenizers_end_ends_an_answer) {
  const Folder folder("llm");
  write_chatting_model(folder);
  const llm::Folder model = llm::open_folder(folder.path / "m");
  std::string question = "a", whole;
  const auto letter = [&] { return std::ranges::find_if(whole, [](unsigned char c) { return std::isalpha(c); }); };
  while (whole.empty() || letter() == whole.begin() || letter() == whole.end()) {
    BOOST_REQUIRE(++question[0] <= 'z');
    whole = answer(model, {{"user", question}});
  }
  json config = json::parse(read(folder.path / "m/tokenizer_config.json"));
  config["eos_token"] = std::string(1, *letter());
  folder.write("m/tokenizer_config.json", config.dump());
  const Result r = folder.run(kChat, question + "\n");
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_EQUAL(r.out, std::string(whole.begin(), letter()) + "\n");
  folder.write("m/generation_config.json", R"({"min_new_tokens": 5})");  // before them, that token comes neither
  const Result long_answer = folder.run(kChat, question + "\n");
  BOOST_REQUIRE_MESSAGE(long_answer.code == 0, long_answer.err);
  BOOST_CHECK_GT(long_answer.out.size(), r.out.size());
  BOOST_CHECK_MESSAGE(long_answer.out.starts_with(std::string(whole.begin(), letter())), long_answer.out);
}

// Drawn answers to a question that the template always writes alike differ from turn to turn, but not from run to run.
BOOST_AUTO_TEST_CASE(each_answer_is_drawn_anew) {
  const Folder folder("llm");
  write_chatting_model(folder);
  folder.write("m/chat_template.jinja", "{{ messages[-1].content }}");
  const Words drawn = with(kStart, {"--temperature", "2", "--max-tokens", "30"});
  const Result one = folder.run(drawn, "hi\n"), two = folder.run(drawn, "hi\nhi\n");
  BOOST_REQUIRE_MESSAGE(two.code == 0, two.err);
  BOOST_REQUIRE(two.out.starts_with(one.out));
  BOOST_CHECK(two.out.substr(one.out.size()) != one.out);
}

BOOST_AUTO_TEST_CASE(models_without_a_template_are_refused) {
  const Folder folder("llm");
  write_chatting_model(folder);
  folder.write("m/chat_template.jinja", "{{ messages | tojson }}\n{% include 'more' %}");
  check_refused(folder, kChat, 1, "m/chat_template.jinja:2: {% include 'more' %}: ");
  folder.write("m/chat_template.jinja", "{{ raise_exception('only once') }}");
  const Result r = folder.run(kChat, "hi\n");
  BOOST_CHECK_EQUAL(r.code, 1);
  BOOST_CHECK(r.err.find("m/chat_template.jinja:1: the template refuses this: only once") != r.err.npos);
  fs::remove(folder.path / "m/chat_template.jinja");
  check_refused(folder, kChat, 2, "--model: 'm' has no template for chats");
}
