/* SPDX-License-Identifier: Apache-2.0 */
/* gbench_shim.cc - registers one benchmark, runs it, collects its repetitions. */
#include "worker/gbench_shim.h"

#include <benchmark/benchmark.h>

#include <ostream>
#include <streambuf>

namespace
{

/* Keeps each repetition and prints nothing. We compute the aggregates. */
class Collector : public benchmark::BenchmarkReporter
{
  public:
    Collector(int max, double *samples_ns, bool bare, double *cpu_ns, int64_t *iterations)
        : max_(max), bare_(bare), samples_ns_(samples_ns), cpu_ns_(cpu_ns), iterations_(iterations)
    {
    }
    bool ReportContext(const Context &) override
    {
        return true;
    }
    void ReportRuns(const std::vector<Run> &runs) override
    {
        for (const Run &run : runs) {
            if (run.run_type != Run::RT_Iteration || run.iterations <= 0 || count_ >= max_)
                continue;
            const double scale = 1e9 / static_cast<double>(run.iterations);
            samples_ns_[count_] = scale * run.real_accumulated_time;
            cpu_ns_[count_] = bare_ ? scale * run.cpu_accumulated_time : 0;
            iterations_[count_] = run.iterations;
            count_++;
        }
    }
    int count() const
    {
        return count_;
    }

  private:
    int max_;
    bool bare_; /* the loop contains the calls only */
    double *samples_ns_, *cpu_ns_;
    int64_t *iterations_;
    int count_ = 0;
};

class NullBuffer : public std::streambuf
{
  protected:
    int overflow(int c) override
    {
        return c;
    }
};

void initialize()
{
    static bool done = false;
    static char name[] = "attnbench-worker";
    if (done)
        return;
    char *argv[] = {name, nullptr};
    int argc = 1;
    benchmark::Initialize(&argc, argv);
    done = true;
}

void self_timed_loop(benchmark::State &state, const attn_gbench_job &job, bool &failed)
{
    for (auto _ : state) {
        double seconds = 0;
        const int result = job.timed_run(job.context, &seconds);
        if (result == 1) {
            job.keep(job.context);
        } else if (result != 0) {
            failed = true;
            state.SkipWithError("run failed");
            break;
        }
        state.SetIterationTime(seconds);
    }
}

/* The loop that is timed from outside contains only the call. */
void bare_loop(benchmark::State &state, const attn_gbench_job &job, bool &failed)
{
    int (*const run)(void *) = job.run;
    void *const context = job.context;
    for (auto _ : state) {
        const int result = run(context);
        if (__builtin_expect(result != 0, 0)) {
            if (result != 1) {
                failed = true;
                state.SkipWithError("run failed");
                break;
            }
            state.PauseTiming();
            job.keep(context);
            state.ResumeTiming();
        }
    }
}

} // namespace

extern "C" int attn_gbench_run(const attn_gbench_job *job, int max, double *samples_ns,
                               double *cpu_ns, int64_t *iterations)
{
    bool failed = false;
    initialize();
    benchmark::ClearRegisteredBenchmarks();
    auto *const benchmark =
        benchmark::RegisterBenchmark("run", [job, &failed](benchmark::State &state) {
            if (job->before && job->before(job->context, state.max_iterations) != 0) {
                failed = true;
                state.SkipWithError("run failed");
                return;
            }
            if (job->run)
                bare_loop(state, *job, failed);
            else
                self_timed_loop(state, *job, failed);
        });
    benchmark->Repetitions(job->samples);
    if (job->run)
        benchmark->UseRealTime();
    else
        benchmark->UseManualTime();
    if (job->iterations > 0)
        benchmark->Iterations(job->iterations);
    else
        benchmark->MinTime(job->min_time);

    NullBuffer buffer;
    std::ostream silent(&buffer);
    Collector collector(max, samples_ns, job->run != nullptr, cpu_ns, iterations);
    collector.SetOutputStream(&silent);
    collector.SetErrorStream(&silent);
    benchmark::RunSpecifiedBenchmarks(&collector);
    benchmark::ClearRegisteredBenchmarks();
    return failed ? -1 : collector.count();
}
