#include "PageFetcher.h"

namespace spillway {

PageFetcher::PageFetcher(const GpuOptions& options, const CacheMemory& hostPages)
    : hostPages_(hostPages),
      pageBytes_(hostPages.pageBytes()),
      bufferBytes_(options.cacheBufferPages * pageBytes_),
      bytes_(options.cacheBuffers * bufferBytes_),
      count_(options.cacheBuffers) {}

void PageFetcher::reserve(uint8_t* buffers,
                          const std::function<void(std::optional<Link>&, StreamIndex)>& makeLink) {
  buffers_ = buffers;
  pin_ = HostPin(hostPages_.data(), hostPages_.bytes());
  order_.resize(count_);
  makeLink(up_, StreamIndex::CacheUp);
  makeLink(down_, StreamIndex::CacheDown);
}

void PageFetcher::load(const FetchedPages& pages, size_t layer, const Staging& staging,
                       const std::function<void()>& readDisk, Launch& launch) {
  Link& link = *up_;
  link.use();
  link.after(launch.before);
  order_.fill(static_cast<uint32_t>(staging.buffer), link);
  link.launch(launch, [&] {
    copiesUp_.clear();
    bool fromDisk = false;
    for (const auto& [place, home] : pages.loads) {
      uint8_t* to = memory(staging) + place * pageBytes_;
      if (home < 0)
        fromDisk = true;
      else if (pin_.pinned())
        copiesUp_.push_back({hostPages_.page(layer, static_cast<size_t>(home)), to});
      else
        link.upload(to, hostPages_.page(layer, static_cast<size_t>(home)), pageBytes_);
    }
    link.copyPages(copiesUp_.data(), copiesUp_.size(), pageBytes_);
    if (!fromDisk) return;
    readDisk();
    for (const auto& [place, home] : pages.loads) {
      if (home < 0) link.upload(memory(staging) + place * pageBytes_, staging.place(home), pageBytes_);
    }
  });
}

void PageFetcher::store(const FetchedPages& pages, size_t layer, const Staging& staging, Launch& launch) {
  Link& link = *down_;
  link.use();
  link.after(launch.before);
  order_.read(static_cast<uint32_t>(staging.buffer), link);
  link.launch(launch, [&] {
    copiesDown_.clear();
    const auto toKernel = [&](int32_t home) { return home >= 0 && pin_.pinned(); };
    for (const auto& [place, home] : pages.stores) {
      if (toKernel(home))
        copiesDown_.push_back({memory(staging) + place * pageBytes_, hostPages_.page(layer, static_cast<size_t>(home))});
    }
    link.copyPages(copiesDown_.data(), copiesDown_.size(), pageBytes_);
    for (const auto& [place, home] : pages.stores) {
      if (toKernel(home)) continue;
      uint8_t* to = home < 0 ? staging.place(home) : hostPages_.page(layer, static_cast<size_t>(home));
      link.download(to, memory(staging) + place * pageBytes_, pageBytes_);
    }
  });
}

uint8_t* PageFetcher::attend(const FetchedPages& pages, const Staging& staging, const Link& link) {
  if (pages.loads.empty())
    order_.fill(static_cast<uint32_t>(staging.buffer), link);
  else
    order_.change(static_cast<uint32_t>(staging.buffer), link);
  return memory(staging);
}

}  // namespace spillway
