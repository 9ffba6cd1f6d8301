// Making stores: whole or not there at all, taken up where they were left, and refused when they are not what they
// should be.
#include <sys/stat.h>
#include <unistd.h>

#include "../../kernels/cpu/Matmul.h"
#include "../../kernels/cpu/compressRows.h"
#include "../../system/Checksum.h"
#include "../tries.h"
#include "storeFixture.h"

namespace spillway {
namespace {

using namespace fixture;

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

TEST(Repack, GivesTheSameFileAgainFromWhateverWasLeft) {
  TinyStore store(smallSpec(), false);
  const std::vector<char> whole = readAll(store.path);
  const std::vector<std::pair<const char*, std::vector<char>>> leftovers = [&] {
    std::vector<std::pair<const char*, std::vector<char>>> result;
    result.emplace_back("nothing", std::vector<char>{});
    result.emplace_back("everything", whole);
    result.emplace_back("other bytes", std::vector<char>(whole.size(), 'x'));
    std::mt19937 random(4);
    for (int i = 0; i < tries(12, 40); i++) {
      const size_t at = random() % whole.size();
      std::vector<char> torn = whole;  // as a killed process leaves a file whose blocks were reserved
      std::fill(torn.begin() + static_cast<long>(at), torn.end(), '\0');
      result.emplace_back("a torn one", torn);
      torn = whole;
      torn[at] ^= 1;
      result.emplace_back("a damaged one", torn);
      torn.resize(at);
      result.emplace_back("a short one", torn);
    }
    return result;
  }();
  for (const auto& [name, bytes] : leftovers) {
    std::remove(store.path.c_str());
    writeAll(store.partial(), bytes);
    store.make();
    EXPECT_EQ(readAll(store.path), whole) << name;
    EXPECT_FALSE(exists(store.partial()));
  }
}

TEST(Repack, TakesUpWholeBlocks) {
  TinyStore store(smallSpec(), false);
  const std::vector<char> whole = readAll(store.path);
  const std::optional<StoreFacts> facts = inspectStore(store.path, TinyStore::kFingerprint);
  std::remove(store.path.c_str());
  // Stopped in the last layer: the blocks before it are whole.
  try {
    store.make(facts->globalBytes + facts->layerBytes[0] + 1);
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Cancelled);
  }
  EXPECT_FALSE(exists(store.path));
  ASSERT_TRUE(exists(store.partial()));
  // The model's file need not be read again for them: what they came from is spoilt now, and nobody notices.
  std::vector<char> file = readAll(store.model.file);
  uint64_t layer1 = file.size();
  for (const WeightBinding& binding : store.model.bindings) {
    for (const WeightSegment& segment : binding.segments) {
      if (binding.layer == 1) layer1 = std::min(layer1, segment.offset);
    }
  }
  std::fill(file.begin(), file.begin() + static_cast<long>(layer1), 'x');
  writeAll(store.model.file, file);
  store.make();
  EXPECT_EQ(readAll(store.path), whole);
}

TEST(Repack, AnotherFingerprintStartsAnew) {
  TinyStore store(smallSpec(), false);
  ASSERT_EQ(std::rename(store.path.c_str(), store.partial().c_str()), 0);
  RepackOptions options = store.repackOptions();
  options.fingerprint = "tidy model";  // as long, so that the file is
  LoadProgress progress;
  std::atomic<uint64_t> total{0};
  repack(std::move(options), progress, total);
  EXPECT_FALSE(inspectStore(store.path, TinyStore::kFingerprint));
  EXPECT_TRUE(inspectStore(store.path, "tidy model"));
}

TEST(Repack, LeavesAWholeStoreOfTheFingerprintAlone) {
  TinyStore store(smallSpec(), false);
  struct stat first{}, second{};
  ASSERT_EQ(stat(store.path.c_str(), &first), 0);
  store.make();
  ASSERT_EQ(stat(store.path.c_str(), &second), 0);
  EXPECT_EQ(first.st_ino, second.st_ino);
  EXPECT_FALSE(exists(store.partial()));
  // A damaged one is no such store.
  const std::vector<char> whole = readAll(store.path);
  flipByte(store.path, 60);
  store.make();
  EXPECT_EQ(readAll(store.path), whole);
}

TEST(Repack, ModelFilesThatAreNotWhatTheyWereAreRefused) {
  TinyStore store(smallSpec(), false);
  std::remove(store.path.c_str());
  const auto attempt = [&](const std::string& stamp, const std::function<void()>& meanwhile) {
    RepackOptions options = store.repackOptions();
    options.stamps = {stamp};
    LoadProgress progress;
    progress.changed = meanwhile;
    std::atomic<uint64_t> total{0};
    repack(std::move(options), progress, total);
  };
  const std::string stamp = File(store.model.file).stamp().text();
  const auto expectRefused = [&](const std::string& given, const std::function<void()>& meanwhile) {
    try {
      attempt(given, meanwhile);
      ADD_FAILURE() << "accepted";
    } catch (const FileError& error) {
      EXPECT_EQ(error.file, store.model.file);
      EXPECT_EQ(error.found, "another one, or a change, since its contents were hashed");
    }
    EXPECT_FALSE(exists(store.path));
    EXPECT_FALSE(exists(store.partial()));
  };
  expectRefused("1:2:3:4:5", [] {});
  attempt(stamp, [] {});
  std::remove(store.path.c_str());
  expectRefused(stamp, [&] { chmod(store.model.file.c_str(), 0600); });
  expectRefused(stamp, [] {});
}

TEST(Repack, ModelFilesThatFailLeaveNothingBehind) {
  TinyStore store(smallSpec(), false);
  std::remove(store.path.c_str());
  ASSERT_EQ(truncate(store.model.file.c_str(), 50000), 0);
  EXPECT_THROW(store.make(), FileError);
  EXPECT_FALSE(exists(store.path));
  EXPECT_FALSE(exists(store.partial()));
  RepackOptions options = store.repackOptions();
  options.threads = 0;
  LoadProgress progress;
  std::atomic<uint64_t> total{0};
  EXPECT_THROW(repack(std::move(options), progress, total), Error);
}

void expectField(const std::function<void()>& call, const std::string& field) {
  try {
    call();
    ADD_FAILURE() << "accepted: " << field;
  } catch (const FileError& error) {
    EXPECT_EQ(error.field, field) << error.what();
  }
}

TEST(StoreHeader, EveryDamagedByteIsNoticed) {
  TinyStore store(smallSpec(), false);
  const std::vector<char> whole = readAll(store.path);
  const uint64_t contents = whole.size() - (store.blocks(~uint64_t(0))[0].bytes + 4095) / 4096 * 4096 -
                            2 * ((store.blocks(~uint64_t(0))[1].bytes + 4095) / 4096 * 4096);
  unsigned damaged = 0, other = 0, padding = 0;
  for (uint64_t at = 0; at < contents; at++) {
    flipByte(store.path, at);
    try {
      if (inspectStore(store.path, TinyStore::kFingerprint))
        padding++;
      else
        other++;
    } catch (const FileError&) {
      damaged++;
    }
    flipByte(store.path, at);
  }
  EXPECT_EQ(readAll(store.path), whole);
  EXPECT_EQ(other, 4u) << "the version's bytes";
  EXPECT_GT(damaged, 500u);
  // Zeros that fill the header up follow its contents, and are the only bytes that mean nothing.
  uint64_t zeros = 0;
  while (zeros < contents && whole[contents - 1 - zeros] == 0) zeros++;
  EXPECT_LE(padding, zeros);
}

TEST(StoreHeader, EveryLengthIsNoticed) {
  TinyStore store(smallSpec(), false);
  std::vector<char> bytes = readAll(store.path);
  for (size_t length = 0; length < bytes.size(); length += length < 9000 ? 13 : 20011) {
    writeAll(store.path, {bytes.begin(), bytes.begin() + static_cast<long>(length)});
    EXPECT_THROW(inspectStore(store.path, TinyStore::kFingerprint), FileError) << length;
  }
  bytes.push_back('x');
  writeAll(store.path, bytes);
  expectField([&] { inspectStore(store.path, TinyStore::kFingerprint); }, "size");
  EXPECT_FALSE(inspectStore("/nonexistent/folder/model.spillway", "x"));
  EXPECT_THROW(inspectStore("/tmp", "x"), FileError);
  EXPECT_THROW(inspectStore(store.model.file, "x"), FileError);
}

TEST(StoreHeader, BelongsToItsModelAlone) {
  const TinyStore store(smallSpec(), false);
  const auto open = [&](const std::function<void(RuntimeOptions&)>& change) {
    return [&, change] {
      RuntimeOptions options = store.options(0, 1);
      change(options);
      Model(std::move(options)).reserve();
    };
  };
  EXPECT_NO_THROW(open([](RuntimeOptions&) {})());
  expectField(open([](RuntimeOptions& o) { o.weights->fingerprint = "another"; }), "fingerprint");
  expectField(open([](RuntimeOptions& o) { std::swap(o.bindings[3].segments[0], o.bindings[3].segments[1]); }),
              "table");
  expectField(open([](RuntimeOptions& o) {
                for (WeightBinding& b : o.bindings)
                  if (!b.matrix) b.add = 1;
              }),
              "table");
  expectField(open([](RuntimeOptions& o) {
                for (WeightBinding& b : o.bindings)
                  if (b.role == "q.weight") b.type = WeightType::BF16;
              }),
              "table");
  expectField(open([](RuntimeOptions& o) { o.weights->store = "/nonexistent/model.spillway"; }), "file");
}

// Panels and blocks, and what compression rounds weights to, are on users' disks: whoever changes them changes
// kStoreVersion (StoreFormat.h) too, and then these sums.
TEST(StoreVersion, StandsForTheLayoutOfPanelsAndForCompression) {
  uint32_t sum = 0;
  for (const WeightType type : {WeightType::F32, WeightType::F16, WeightType::BF16, WeightType::Q4_0, WeightType::Q4_1,
                                WeightType::Q5_0, WeightType::Q5_1, WeightType::Q8_0, WeightType::Q2_K,
                                WeightType::Q3_K, WeightType::Q4_K, WeightType::Q5_K, WeightType::Q6_K}) {
    constexpr size_t kInputs = 512;
    std::mt19937 random(static_cast<unsigned>(type) + 1);
    std::vector<uint8_t> rows(kPanelOutputs * weightRowBytes(type, kInputs));
    for (uint8_t& byte : rows) byte = static_cast<uint8_t>(random());
    const uint8_t* pointers[kPanelOutputs];
    for (size_t r = 0; r < kPanelOutputs; r++)
      pointers[r] = r == 11 ? nullptr : rows.data() + r * weightRowBytes(type, kInputs);
    std::vector<uint8_t> panel(panelBytes(type, kInputs));
    packPanel(type, kInputs, pointers, panel.data());
    sum = crc32c(sum, panel.data(), panel.size());
  }
  // Weights of fewer bits than the file's: how they are rounded.
  uint32_t compressedSum = 0;
  for (const WeightType type : {WeightType::Q4_G64, WeightType::Q8_0}) {
    std::vector<float> values(512);
    std::mt19937 random(7);
    for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random() % 2001) - 1000) / 4096;
    std::vector<uint8_t> row(weightRowBytes(type, values.size()));
    compressRow(type, values.data(), values.size(), row.data());
    compressedSum = crc32c(compressedSum, row.data(), row.size());
  }
  EXPECT_EQ(kStoreVersion, 2u);
  EXPECT_EQ(sum, 3862144361u);
  EXPECT_EQ(compressedSum, 4034033364u);
}

}  // namespace
}  // namespace spillway
