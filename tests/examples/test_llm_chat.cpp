// llm: conversations with a model.
// needs: programs: llm
#include "llm/conversations.h"
#include "support/llm_models.h"

#include <seppo/models/decoding/generate.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
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

const Words kChat{"llm", "chat", "--model", "m", "--temperature", "0", "--max-tokens", "5"};

// What the model says next, by the library alone.
std::string answer(const llm::Folder& model, const Talk& said) {
  seppo::Ragged start;
  start.add(seppo::encode_chat(model.tokenizer, llm::chat_template(model).render(said, true)));
  const seppo::GenerateOptions options{
      .max_tokens = 5, .sampling = {.temperature = 0}, .stop = model.config.stops, .stride = 32};
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
