// The number of threads by default: the processors that the process may use.
// needs: programs: reverse
#include "app/processors.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <sched.h>
#include <algorithm>
#include <string>

using namespace test;

namespace {

// This process's processors: how many, and the first.
cpu_set_t own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  BOOST_REQUIRE_EQUAL(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

struct OnOneProcessor {
  cpu_set_t before = own_processors();
  OnOneProcessor() {
    int first = 0;
    while (!CPU_ISSET(static_cast<unsigned>(first), &before)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(first), &one);
    BOOST_REQUIRE_EQUAL(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~OnOneProcessor() { ::sched_setaffinity(0, sizeof before, &before); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(those_that_it_may_run_on) {
  const Folder nothing("processors");  // without control groups
  const cpu_set_t own = own_processors();
  BOOST_CHECK_EQUAL(examples::available_processors(nothing.path), CPU_COUNT(&own));
  BOOST_CHECK_LE(examples::available_processors(), CPU_COUNT(&own));
  BOOST_CHECK_GE(examples::available_processors(), 1);
  const OnOneProcessor scope;
  BOOST_CHECK_EQUAL(examples::available_processors(nothing.path), 1);
  BOOST_CHECK_EQUAL(examples::available_processors(), 1);
}

BOOST_AUTO_TEST_CASE(a_program_on_one_processor) {
  const Folder folder("processors");
  const auto train = words("reverse train --max-steps 1 --overwrite --log-format plain --out m");
  const OnOneProcessor scope;
  const Result r = folder.run(train);
  BOOST_CHECK_MESSAGE(r.code == 0 && r.err.find(", 1 threads, ") != std::string::npos, r.err);
}

// A container's share of the processors' time, in the files of both versions of control groups.
BOOST_AUTO_TEST_CASE(what_a_control_group_leaves) {
  const Folder folder("processors");
  const auto write = [&](const std::string& name, const std::string& content) {
    fs::create_directories((folder.path / name).parent_path());
    folder.write(name, content);
  };
  const cpu_set_t own = own_processors();
  const int all = CPU_COUNT(&own);
  const auto found = [&] { return examples::available_processors(folder.path); };
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  BOOST_CHECK_EQUAL(found(), all);
  for (const auto& [limit, processors] : {std::pair("100000 100000\n", 1),
                                          {"1000 100000\n", 1},
                                          {"50000 50000\n", 1},
                                          {"150000 100000\n", 2},
                                          {"200000 100000\n", 2},
                                          {"9900000 100000\n", 99}}) {
    write("sys/fs/cgroup/a/b/cpu.max", limit);
    BOOST_CHECK_EQUAL(found(), std::min(all, processors));
  }
  write("sys/fs/cgroup/a/cpu.max", "70000 100000\n");  // the limit of a group is that of those within it
  BOOST_CHECK_EQUAL(found(), 1);
  fs::remove_all(folder.path / "sys");
  for (const char* lines : {"4:cpu,cpuacct:/c\n0::/x\n", "5:memory:/c\n4:cpu:/c\n", "4:cpuacct,cpu:/c"}) {
    write("proc/self/cgroup", lines);
    write("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    write("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
    BOOST_CHECK_EQUAL(found(), all);
    write("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "60000\n");
    BOOST_CHECK_EQUAL(found(), 1);
  }
  write("proc/self/cgroup", "4:cpuset:/c\n");
  BOOST_CHECK_EQUAL(found(), all);
}
