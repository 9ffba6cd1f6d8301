// Constrained decoding: what grammars allow of a small vocabulary, and rows that follow them, alone and in company.
#include <cstring>
#include <limits>
#include <set>

#include "../../grammar/Grammar.h"
#include "modelFixture.h"

namespace spillway {
namespace {

using namespace fixture;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int32_t kEnd = 0;

const std::vector<std::string>& words() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list = {"",    "ab",  "ac",   " a", "{\"",
                                     "\":", "\"}", "true", "tr", "10"};  // the first one ends
    for (char letter = 'a'; letter <= 'z'; letter++) list.push_back(std::string(1, letter));
    for (char digit = '0'; digit <= '9'; digit++) list.push_back(std::string(1, digit));
    for (const char* sign : {"\"", "{", "}", "[", "]", ":", ",", ".", "-", " ", "\xe2", "\x82"})
      list.emplace_back(sign);
    list.resize(smallSpec().vocabularySize);
    return list;
  }();
  return all;
}

int32_t tokenOf(const std::string& word) {
  return static_cast<int32_t>(std::find(words().begin(), words().end(), word) - words().begin());
}

const Vocabulary& vocabulary() {
  static const Vocabulary made = [] {
    TokenTexts texts;
    for (const std::string& word : words()) {
      texts.bytes.insert(texts.bytes.end(), word.begin(), word.end());
      texts.lengths.push_back(static_cast<uint32_t>(word.size()));
    }
    texts.firstTokens = {static_cast<uint32_t>(tokenOf(" a")), static_cast<uint32_t>(tokenOf(" "))};
    texts.firstBytes = {'a'};
    texts.firstLengths = {1, 0};
    texts.ends = {kEnd};
    return Vocabulary(texts);
  }();
  return made;
}

std::shared_ptr<const Grammar> compiled(GrammarKind kind, const std::string& text) {
  return std::make_shared<const Grammar>(vocabulary(), kind, text);
}

std::set<std::string> allowed(GrammarMatcher& row) {
  std::vector<float> logits(words().size(), 1.0f);
  row.mask(logits.data(), logits.size());
  std::set<std::string> list;
  for (size_t i = 0; i < logits.size(); i++)
    if (logits[i] == 1.0f) list.insert(i == kEnd ? "end" : words()[i]);
  return list;
}

class Grammars : public testing::Test {
  void SetUp() override {
    if (!hasGrammars()) GTEST_SKIP() << "built without cargo";
  }
};
using GrammarRules = Grammars;

using Set = std::set<std::string>;

TEST_F(GrammarRules, MasksLeaveWhatMayComeNextAndTheEndWhereTheTextIsWhole) {
  GrammarMatcher row(compiled(GrammarKind::Regex, "ab?|ac+x"));
  // Where an answer begins a blank before the first word is dropped, and the blank alone is nothing.
  EXPECT_EQ(allowed(row), (Set{"a", "ab", "ac", " a"}));
  EXPECT_EQ(row.place(), GrammarMatcher::Place::Open);
  row.append(tokenOf(" a"));
  EXPECT_EQ(row.place(), GrammarMatcher::Place::Accepting);
  EXPECT_EQ(allowed(row), (Set{"b", "c", "end"}));
  row.append(tokenOf("c"));
  EXPECT_EQ(row.place(), GrammarMatcher::Place::Open);
  EXPECT_EQ(allowed(row), (Set{"c", "x"}));
  row.append(tokenOf("x"));
  EXPECT_EQ(row.place(), GrammarMatcher::Place::Ended);
  EXPECT_TRUE(allowed(row).count("z")) << "nothing is changed behind the end";
}

TEST_F(GrammarRules, JsonIsCompactAndInTheOrderOfTheSchema) {
  GrammarMatcher row(compiled(
      GrammarKind::JsonSchema,
      R"({"type":"object","properties":{"b":{"type":"boolean"},"a":{"const":1}},"required":["b","a"],"additionalProperties":false})"));
  for (const char* word : {"{\"", "b", "\":", "tr", "u", "e", ",", "\"", "a", "\":", "1", "}"}) {
    EXPECT_TRUE(allowed(row).count(word)) << word;
    EXPECT_FALSE(allowed(row).count(" ")) << "before " << word;
    row.append(tokenOf(word));
  }
  EXPECT_EQ(row.place(), GrammarMatcher::Place::Ended);
}

TEST_F(GrammarRules, ChoicesMayBeginAlikeAndGrammarsMayRecur) {
  GrammarMatcher row(compiled(GrammarKind::Choices, R"(["a","ab","a c"])"));
  row.mask(std::vector<float>(words().size()).data(), words().size());
  row.append(tokenOf("a"));
  EXPECT_EQ(allowed(row), (Set{"b", " ", "end"}));
  GrammarMatcher nested(compiled(GrammarKind::Lark, "start: \"[\" start \"]\" | \"x\""));
  for (const char* word : {"[", "[", "x", "]", "]"}) {
    EXPECT_TRUE(allowed(nested).count(word)) << word;
    nested.append(tokenOf(word));
  }
  EXPECT_EQ(nested.place(), GrammarMatcher::Place::Ended);
}

TEST_F(GrammarRules, WhatIsNotFiniteShows) {
  GrammarMatcher row(compiled(GrammarKind::Regex, "a"));
  std::vector<float> logits(words().size(), 0.5f);
  logits[tokenOf("z")] = std::numeric_limits<float>::quiet_NaN();
  logits[tokenOf("y")] = std::numeric_limits<float>::infinity();
  row.mask(logits.data(), logits.size());
  EXPECT_TRUE(std::isnan(logits[tokenOf("z")]));
  EXPECT_EQ(logits[tokenOf("y")], std::numeric_limits<float>::infinity());
  EXPECT_EQ(logits[tokenOf("x")], kMinusInfinity);
  EXPECT_EQ(logits[tokenOf("a")], 0.5f);
}

TEST_F(GrammarRules, AnAnswerThatNoTokenCanGoOnWithFailsAndSaysSo) {
  GrammarMatcher row(compiled(GrammarKind::Regex, "a\xe2\x82\xac"));  // there is no token for the last byte
  for (const char* word : {"a", "\xe2", "\x82"}) {
    EXPECT_EQ(allowed(row).count(word), 1u);
    row.append(tokenOf(word));
  }
  allowed(row);
  EXPECT_EQ(row.place(), GrammarMatcher::Place::Failed);
  EXPECT_FALSE(row.message().empty());
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; i++) all += text;
  return all;
}

TEST_F(GrammarRules, WhatCannotBeHeldToIsRefused) {
  struct Case {
    GrammarKind kind;
    std::string text, says;
  };
  std::string doubling = "start: A0\n";
  for (int i = 0; i < 40; i++)
    doubling += "A" + std::to_string(i) + ": A" + std::to_string(i + 1) + " A" + std::to_string(i + 1) + "\n";
  doubling += "A40: \"x\"?\n";
  const Case cases[] = {
      {GrammarKind::JsonSchema, "{", "no JSON"},
      {GrammarKind::JsonSchema, "[]", "an object or a boolean"},
      {GrammarKind::JsonSchema, "false", "accepts no value"},
      {GrammarKind::JsonSchema, R"({"type":"array","uniqueItems":true})", "uniqueItems"},
      {GrammarKind::JsonSchema, R"({"properties":{"a":{"not":{}}}})", "not"},
      {GrammarKind::JsonSchema, R"({"$ref":"#"})", "no answer"},
      {GrammarKind::JsonSchema, R"({"$ref":"http://example.com/schema"})", "example.com"},
      {GrammarKind::JsonSchema, R"({"type":"string","format":"no-such"})", "no-such"},
      {GrammarKind::JsonSchema, R"({"type":"integer","multipleOf":10000019})", "multipleOf"},
      {GrammarKind::JsonSchema, R"({"allOf":[{"type":"integer","multipleOf":997},{"multipleOf":991}]})", "multipleOf"},
      {GrammarKind::JsonSchema, repeated(R"({"type":"array","items":)", 5000) + "{}" + repeated("}", 5000),
       "recursion limit"},
      {GrammarKind::JsonSchema, R"({"type":"string","pattern":")" + repeated("a?", 3000) + "\"}", "at most 4096"},
      {GrammarKind::Regex, repeated("a?", 3000), "at most 4096"},
      {GrammarKind::Regex, repeated("(", 1000) + "a" + repeated(")", 1000), "nested deeper"},
      {GrammarKind::Regex, "(?=a)b", "regex"},
      {GrammarKind::Regex, "[^\\s\\S]", "no answer"},
      {GrammarKind::Regex, "\xc3\xa9", "no answer"},  // the tokens have no such bytes
      {GrammarKind::Lark, "start: s\ns: s", "no answer"},
      {GrammarKind::Lark, doubling, "terminal of"},
      {GrammarKind::Lark, "begin: \"a\"", "start"},
      {GrammarKind::Lark, "start: \"" + repeated("a", 200000) + "\"", "131072"},
      {GrammarKind::Choices, "[]", "at least one"},
      {GrammarKind::Choices, "[1]", "strings"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text.substr(0, 60));
    try {
      compiled(each.kind, each.text);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find(each.says), std::string::npos) << error.what();
    }
  }
}

// What hostile texts let through is bounded by steps: a row of them ends, or fails.
TEST_F(GrammarRules, HostileGrammarsThatAreAcceptedAreBounded) {
  const std::pair<GrammarKind, std::string> cases[] = {
      {GrammarKind::Regex, "(a|b)*a(a|b){2000}"},
      {GrammarKind::Regex, "((a{0,100}){0,100}){0,100}"},
      {GrammarKind::Regex, "(x+x+)+y"},
      {GrammarKind::Lark, "start: s\ns: s s | \"a\" | \"b\""},
      {GrammarKind::Lark, "start: s \"z\"\ns: s s s | \"a\"?"},
      {GrammarKind::JsonSchema, R"({"type":"array","minItems":1000000})"},
      {GrammarKind::JsonSchema, R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"},
  };
  for (const auto& [kind, text] : cases) {
    SCOPED_TRACE(text);
    GrammarMatcher row(compiled(kind, text));
    for (int step = 0; step < 40 && row.place() <= GrammarMatcher::Place::Accepting; step++) {
      std::vector<float> logits(words().size(), 1.0f);
      row.mask(logits.data(), logits.size());
      if (row.place() == GrammarMatcher::Place::Failed) break;
      std::vector<int32_t> left;
      for (size_t i = 0; i < logits.size(); i++)
        if (logits[i] == 1.0f) left.push_back(int32_t(i));
      ASSERT_FALSE(left.empty());
      row.append(left[size_t(step) * 7 % left.size()]);
    }
  }
}

std::shared_ptr<const Grammar> schemaOf(int kind) {
  static const std::shared_ptr<const Grammar> list[] = {
      compiled(
          GrammarKind::JsonSchema,
          R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"boolean"}}},"required":["a","b"],"additionalProperties":false})"),
      compiled(GrammarKind::Regex, "[a-f]{3}(-[0-9]{2})*"),
      nullptr,
  };
  return list[kind];
}

SequenceOptions constrained(uint32_t seed) {
  SequenceOptions options = sequenceOptions(randomTokens(3, smallSpec().vocabularySize, seed), 30);
  options.grammar = schemaOf(int(seed % 3));
  options.sampling.seed = seed;
  options.sampling.temperature = seed % 2 == 0 ? 0.0f : 1.0f;
  options.sampling.topP = seed % 4 == 1 ? 0.9f : 1.0f;
  options.sampling.repetitionPenalty = seed % 5 == 1 ? 1.3f : 1.0f;
  options.logprobs = seed % 7 == 1 ? 2 : -1;
  return options;
}

struct Answer {
  std::vector<int32_t> tokens, places;
  std::vector<float> logprobs;
  bool operator==(const Answer& other) const {
    return tokens == other.tokens && places == other.places &&
           (logprobs.empty() ||
            std::memcmp(logprobs.data(), other.logprobs.data(), logprobs.size() * sizeof(float)) == 0);
  }
};

constexpr size_t kAnswerTokens = 20;
constexpr int32_t kNotTold = -2;  // where a grammar is in the middle of tokens that it forces

// The first tokens of rows of these seeds, all in one batch as long as they have fewer.
std::vector<Answer> answersOf(const TinyModel& model, const std::vector<uint32_t>& seeds, uint32_t threads) {
  RuntimeOptions options = model.options();
  options.threads = threads;
  TinyRuntime tiny(std::move(options));
  std::vector<Answer> answers(seeds.size());
  std::vector<Range> ranges;
  std::vector<Answer*> owners;
  for (uint32_t i = 0; i < seeds.size(); i++) {
    ranges.push_back({tiny.runtime.createSequence(constrained(seeds[i])),
                      0,
                      3,
                      HeadMode::Sample,
                      {int32_t(2 * i), int32_t(2 * i + 1)}});
    owners.push_back(&answers[i]);
  }
  while (!ranges.empty()) {
    const auto head = tiny.pass(ranges);
    size_t nextForced = 0;
    for (size_t i = 0; i < ranges.size(); i++) {
      const size_t forced = head->forcedCounts.empty() ? 0 : size_t(head->forcedCounts[i]);
      Answer& answer = *owners[i];
      answer.tokens.push_back(head->tokens[i]);
      answer.logprobs.push_back(head->logprobs[i]);
      answer.tokens.insert(answer.tokens.end(), head->forcedTokens.begin() + nextForced,
                           head->forcedTokens.begin() + nextForced + forced);
      answer.logprobs.resize(answer.tokens.size(), std::numeric_limits<float>::quiet_NaN());
      answer.places.resize(answer.tokens.size(), kNotTold);
      answer.places.back() = head->places.empty() ? -1 : head->places[i];
      nextForced += forced;
      ranges[i].first += ranges[i].tokens;
      ranges[i].tokens = 1 + uint32_t(forced);
    }
    for (size_t i = ranges.size(); i-- > 0;) {
      Answer& answer = *owners[i];
      if (answer.tokens.size() < kAnswerTokens) continue;
      answer.tokens.resize(kAnswerTokens), answer.places.resize(kAnswerTokens), answer.logprobs.resize(kAnswerTokens);
      ranges.erase(ranges.begin() + i), owners.erase(owners.begin() + i);
    }
  }
  return answers;
}

TEST_F(Grammars, RowsThatFollowThemAreTheSameAloneAndInCompany) {
  const TinyModel model(smallSpec());
  const std::vector<uint32_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::vector<Answer> together = answersOf(model, all, 2);
  size_t whole = 0;
  for (uint32_t seed : all) {
    SCOPED_TRACE(seed);
    EXPECT_TRUE(answersOf(model, {seed}, 1)[0] == together[seed]);
    if (seed % 3 == 2) continue;
    GrammarMatcher row(schemaOf(int(seed % 3)));
    for (size_t i = 0; i < together[seed].tokens.size() && row.place() <= GrammarMatcher::Place::Accepting; i++) {
      const int32_t token = together[seed].tokens[i];
      ASSERT_TRUE(allowed(row).count(token == kEnd ? "end" : words()[size_t(token)])) << "token " << i;
      row.append(token);
      if (together[seed].places[i] != kNotTold) {
        EXPECT_EQ(int32_t(row.place()), together[seed].places[i]);
      }
    }
    whole += row.place() == GrammarMatcher::Place::Ended ? 1 : 0;
  }
  EXPECT_GT(whole, 2u);
}

TEST_F(Grammars, LogProbabilitiesAreTheModelsOwn) {
  const TinyModel model(smallSpec());
  TinyRuntime tiny(model.options());
  const uint32_t vocabularySize = model.spec.vocabularySize;
  const std::vector<int32_t> prompt = randomTokens(4, vocabularySize, 5);
  SequenceOptions free = sequenceOptions(prompt, 8), held = sequenceOptions(prompt, 8);
  free.logprobs = held.logprobs = int32_t(vocabularySize);
  held.grammar = compiled(GrammarKind::Regex, "q");
  const std::vector<Range> ranges = {{tiny.runtime.createSequence(std::move(free)), 0, 4, HeadMode::Sample, {0}},
                                     {tiny.runtime.createSequence(std::move(held)), 0, 4, HeadMode::Sample, {1}}};
  const auto head = tiny.pass(ranges);
  ASSERT_EQ(head->tokens[1], tokenOf("q"));
  EXPECT_TRUE(std::equal(head->topTokens.begin(), head->topTokens.begin() + vocabularySize,
                         head->topTokens.begin() + vocabularySize));
  const auto place = std::find(head->topTokens.begin(), head->topTokens.begin() + vocabularySize, tokenOf("q")) -
                     head->topTokens.begin();
  EXPECT_EQ(head->logprobs[1], head->topLogprobs[size_t(place)]);
}

TEST_F(Grammars, ARowWhoseGrammarFailsIsNoOtherRowsAffair) {
  const TinyModel model(smallSpec());
  TinyRuntime tiny(model.options()), other(model.options());
  SequenceOptions failing = sequenceOptions({1, 2, 3}, 16);
  failing.grammar = compiled(GrammarKind::Regex, "z\xe2\x82\xac");
  std::vector<Range> both = {
      {tiny.runtime.createSequence(std::move(failing)), 0, 3, HeadMode::Sample, {0}},
      {tiny.runtime.createSequence(sequenceOptions({4, 5, 6}, 16)), 0, 3, HeadMode::Sample, {1}}};
  std::vector<Range> one = {
      {other.runtime.createSequence(sequenceOptions({4, 5, 6}, 16)), 0, 3, HeadMode::Sample, {1}}};
  for (int pass = 0; pass < 6; pass++) {
    const auto head = tiny.pass(both), alone = other.pass(one);
    EXPECT_EQ(head->tokens[1], alone->tokens[0]);
    // The two bytes that there are tokens for are forced, with the first one; then nothing can come.
    EXPECT_EQ(head->forcedTokens.size(), pass == 0 ? 2u : 0u);
    EXPECT_EQ(head->places[0] == int32_t(GrammarMatcher::Place::Failed), pass > 0);
    EXPECT_EQ(head->failures.size(), pass > 0 ? 1u : 0u);
    for (auto* ranges : {&both, &one})
      for (Range& range : *ranges) range.first += range.tokens, range.tokens = 1;
    both[0].tokens += uint32_t(head->forcedTokens.size());
  }
}

// A vocabulary with all bytes: where it has, texts that a grammar forces have one tokenization.
const std::vector<std::string>& manyWords() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list = {"", "na", "name", "\":", " a", "true", "fal", "{\"", "\",\""};
    for (int byte = 0; byte <= 0xf4; byte++) list.push_back(std::string(1, static_cast<char>(byte)));
    return list;
  }();
  return all;
}

const Vocabulary& completeVocabulary(bool first) {
  const auto make = [](bool splits) {
    TokenTexts texts;
    for (const std::string& word : manyWords()) {
      texts.bytes.insert(texts.bytes.end(), word.begin(), word.end());
      texts.lengths.push_back(static_cast<uint32_t>(word.size()));
    }
    texts.ends = {kEnd};
    if (splits) {
      texts.firstTokens = {
          4, 9 + ' '};  // a blank before an answer's first word is dropped, and the blank alone is nothing
      texts.firstBytes = {'a'};
      texts.firstLengths = {1, 0};
    }
    return Vocabulary(texts);
  };
  static const Vocabulary plain = make(false), split = make(true);
  return first ? split : plain;
}

TEST_F(GrammarRules, WhatIsForcedIsTheLongestTokenAgainAndAgain) {
  for (const bool first : {false, true}) {
    SCOPED_TRACE(first);
    GrammarMatcher row(
        std::make_shared<const Grammar>(completeVocabulary(first), GrammarKind::Regex, "a(b|c)names\":(true|false)x"));
    const auto masked = [&] {
      std::vector<float> logits(manyWords().size(), 1.0f);
      row.mask(logits.data(), logits.size());
      std::set<std::string> list;
      for (size_t i = 0; i < logits.size(); i++)
        if (logits[i] == 1.0f) list.insert(manyWords()[i]);
      return list;
    };
    const auto append = [&](const std::string& word, size_t most) {
      row.append(static_cast<int32_t>(std::find(manyWords().begin(), manyWords().end(), word) - manyWords().begin()),
                 most);
      std::vector<std::string> forced;
      for (const uint32_t token : row.forced()) forced.push_back(manyWords()[token]);
      return forced;
    };
    EXPECT_EQ(masked(), first ? (Set{"a", " a"}) : Set{"a"});
    EXPECT_TRUE(append(first ? " a" : "a", 9).empty());
    EXPECT_EQ(masked(), (Set{"b", "c"}));
    // No more than there is room for; the others are what the masks have, one after another.
    EXPECT_EQ(append("b", 1), (std::vector<std::string>{"name"}));
    EXPECT_EQ(masked(), Set{"s"});
    EXPECT_EQ(append("s", 0), std::vector<std::string>{});
    EXPECT_EQ(masked(), Set{"\":"});
    EXPECT_TRUE(append("\":", 9).empty());
    EXPECT_EQ(masked(), (Set{"t", "true", "f", "fal"}));
    EXPECT_EQ(append("fal", 9), (std::vector<std::string>{"s", "e", "x"}));
    EXPECT_EQ(row.place(), GrammarMatcher::Place::Ended);
  }
}

TEST_F(GrammarRules, WhereATokenIsOneOfSeveralTextsNothingIsForced) {
  const auto behindX = [](const std::string& regex) {
    GrammarMatcher row(std::make_shared<const Grammar>(completeVocabulary(false), GrammarKind::Regex, regex));
    std::vector<float> logits(manyWords().size(), 1.0f);
    row.mask(logits.data(), logits.size());
    row.append(9 + 'x', 9);
    EXPECT_TRUE(row.forced().empty());
    std::fill(logits.begin(), logits.end(), 1.0f);
    row.mask(logits.data(), logits.size());
    std::set<std::string> list;
    for (size_t i = 0; i < logits.size(); i++)
      if (logits[i] == 1.0f) list.insert(i == kEnd ? "end" : manyWords()[i]);
    return list;
  };
  // Each token of the mask begins "name", but it need not come to that.
  EXPECT_EQ(behindX("x(name|nab)y"), (Set{"n", "na", "name"}));
  EXPECT_EQ(behindX("x(na|name)y"), (Set{"n", "na", "name"}));
  EXPECT_EQ(behindX("x(name)?"), (Set{"n", "na", "name", "end"}));
}

// A row's tokens, all of a pass in one range; one by one where it wants log-probabilities.
std::vector<int32_t> forcedAnswer(TinyRuntime& tiny, uint32_t vocabularySize,
                                  const std::shared_ptr<const Grammar>& grammar, uint32_t seed, bool sampled,
                                  size_t& passes) {
  SequenceOptions options = sequenceOptions(randomTokens(3, vocabularySize, seed), 64);
  options.grammar = grammar;
  options.sampling.seed = seed;
  options.sampling.temperature = seed % 2 == 0 ? 0.0f : 1.0f;
  options.logprobs = sampled ? 0 : -1;
  std::vector<Range> ranges = {
      {tiny.runtime.createSequence(std::move(options)), 0, 3, HeadMode::Sample, {0, 1, 2, 3, 4, 5, 6, 7}}};
  std::vector<int32_t> tokens;
  for (;;) {
    const auto head = tiny.pass(ranges);
    passes++;
    tokens.push_back(head->tokens[0]);
    tokens.insert(tokens.end(), head->forcedTokens.begin(), head->forcedTokens.end());
    if (head->places[0] == int32_t(GrammarMatcher::Place::Ended) || head->tokens[0] == kEnd || passes > 64)
      return tokens;
    ranges[0].first += ranges[0].tokens;
    ranges[0].tokens = 1 + static_cast<uint32_t>(head->forcedTokens.size());
  }
}

TEST_F(Grammars, ForcedTokensComeTogetherAndAreThoseThatMasksLeaveAlone) {
  DecoderSpec spec = smallSpec();
  spec.vocabularySize = static_cast<uint32_t>(manyWords().size());
  const TinyModel model(spec);
  const auto grammar = std::make_shared<const Grammar>(
      completeVocabulary(true), GrammarKind::JsonSchema,
      R"({"type":"object","properties":{"name":{"type":"boolean"},"names":{"type":"boolean"},"x":{"type":"boolean"}},"required":["name","names","x"],"additionalProperties":false})");
  for (uint32_t seed = 0; seed < 6; seed++) {
    SCOPED_TRACE(seed);
    TinyRuntime tiny(model.options()), other(model.options());
    size_t together = 0, oneByOne = 0;
    const std::vector<int32_t> tokens = forcedAnswer(tiny, spec.vocabularySize, grammar, seed, false, together);
    EXPECT_EQ(tokens, forcedAnswer(other, spec.vocabularySize, grammar, seed, true, oneByOne));
    EXPECT_EQ(oneByOne, tokens.size());
    EXPECT_LT(together, oneByOne / 2);
  }
}

// A pass that was issued before its owner heard of what is forced samples nothing.
TEST_F(Grammars, NothingIsSampledBeforeTheLastKnownToken) {
  DecoderSpec spec = smallSpec();
  spec.vocabularySize = static_cast<uint32_t>(manyWords().size());
  const TinyModel model(spec);
  TinyRuntime tiny(model.options());
  SequenceOptions options = sequenceOptions({5, 6}, 16);
  options.grammar = std::make_shared<const Grammar>(completeVocabulary(false), GrammarKind::Regex, "(t|f)name(x|y)");
  std::vector<Range> ranges = {
      {tiny.runtime.createSequence(std::move(options)), 0, 2, HeadMode::Sample, {0, 1}},
      {tiny.runtime.createSequence(sequenceOptions({7, 8}, 16)), 0, 2, HeadMode::Sample, {2, 3}}};
  EXPECT_EQ(tiny.pass(ranges)->forcedTokens.size(), 1u);
  for (Range& range : ranges) range.first = 2, range.tokens = 1;
  EXPECT_EQ(tiny.pass(ranges)->tokens.size(), 1u) << "that of the other row";
  for (Range& range : ranges) range.first = 3;
  const auto head = tiny.pass(ranges);
  ASSERT_EQ(head->tokens.size(), 2u);
  EXPECT_EQ(head->places, (std::vector<int32_t>{int32_t(GrammarMatcher::Place::Ended), -1}));
}

TEST_F(GrammarRules, RowsRefuseAGrammarOfMoreTokensThanTheModelHas) {
  DecoderSpec spec = smallSpec();
  spec.vocabularySize = 40;
  const TinyModel model(spec);
  TinyRuntime tiny(model.options());
  SequenceOptions options = sequenceOptions({1}, 8);
  options.grammar = compiled(GrammarKind::Regex, "a");
  EXPECT_THROW(tiny.runtime.createSequence(std::move(options)), Error);
}

}  // namespace
}  // namespace spillway
