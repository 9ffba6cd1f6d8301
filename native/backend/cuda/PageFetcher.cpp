#include "PageFetcher.h"

#include <algorithm>
#include <vector>

namespace spillway {

PageFetcher::PageFetcher(const GpuOptions& options, const CacheMemory& hostPages, const HostPin& pin)
    : hostPages_(hostPages),
      pin_(pin),
      pageBytes_(hostPages.pageBytes()),
      bufferBytes_(options.cacheBufferPages * pageBytes_),
      bytes_(options.cacheBuffers * bufferBytes_),
      count_(options.cacheBuffers) {}

void PageFetcher::reserve(uint8_t* buffers, PagesFirst& first,
                          const std::function<void(std::optional<Link>&, StreamIndex)>& makeLink) {
  buffers_ = buffers;
  order_.resize(count_);
  first_ = &first;
  makeLink(up_, StreamIndex::CacheUp);
  makeLink(down_, StreamIndex::CacheDown);
}

void PageFetcher::bring(const FetchedGroup& group, size_t layer, const Staging& staging, Link& link) {
  std::vector<cuda::PageCopy> copies;
  for (const auto& [place, home] : group.loads)
    if (home >= 0) copies.push_back({homeOf(home, layer, staging), memory(staging) + place * pageBytes_});
  if (pin_.pinned())
    link.copyPages(copies.data(), copies.size(), pageBytes_);
  else
    link.uploadPages(copies.data(), copies.size(), pageBytes_);
}

void PageFetcher::bringStaged(const FetchedGroup& group, const Staging& staging, Link& link) {
  std::vector<cuda::PageCopy> copies;
  for (const auto& [place, home] : group.loads)
    if (home < 0) copies.push_back({staging.place(home), memory(staging) + place * pageBytes_});
  link.uploadPages(copies.data(), copies.size(), pageBytes_);
}

void PageFetcher::takeBack(const FetchedGroup& group, size_t layer, const Staging& staging, Link& link) {
  std::vector<cuda::PageCopy> pinned, others;
  for (const auto& [place, home] : group.stores)
    (isPinned(home) ? pinned : others).push_back({memory(staging) + place * pageBytes_, homeOf(home, layer, staging)});
  link.copyPages(pinned.data(), pinned.size(), pageBytes_);
  link.downloadPages(others.data(), others.size(), pageBytes_);
}

void PageFetcher::load(const FetchedPages& pages, size_t layer, const Staging& staging,
                       const std::function<void()>& readDisk, Launch& launch) {
  Link& link = *up_;
  link.use();
  link.after(launch.before);
  if (pages.loads) order_.fill(static_cast<uint32_t>(staging.buffer), link);
  link.launch(launch, [&] {
    first_->onLink(link.stream(), [&] { bring(pages.groups[0], layer, staging, link); });
    readDisk();
    first_->onLink(link.stream(), [&] { bringStaged(pages.groups[0], staging, link); });
  });
}

void PageFetcher::store(const FetchedPages& pages, size_t layer, const Staging& staging, Launch& launch) {
  Link& link = *down_;
  link.use();
  link.after(launch.before);
  order_.read(static_cast<uint32_t>(staging.buffer), link);
  link.launch(launch, [&] { takeBack(pages.groups.back(), layer, staging, link); });
}

uint8_t* PageFetcher::attend(const FetchedPages& pages, const Staging& staging, const Link& link) {
  const auto buffer = static_cast<uint32_t>(staging.buffer);
  if (pages.loads)
    order_.change(buffer, link);
  else
    order_.fill(buffer, link);
  return memory(staging);
}

void PageFetcher::next(const FetchedPages& pages, size_t group, size_t layer, const Staging& staging, Link& link) {
  takeBack(pages.groups[group - 1], layer, staging, link);
  first_->onLink(link.stream(), [&] {
    bring(pages.groups[group], layer, staging, link);
    bringStaged(pages.groups[group], staging, link);
  });
}

}  // namespace spillway
