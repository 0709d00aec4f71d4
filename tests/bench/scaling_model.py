"""The model of tests/bench/scaling: a step's time is the sum of computing, handling bytes, the wire, and latency."""
import itertools, statistics

PREDICTED_RANKS, PREDICTED_GBITS, PREDICTED_SHARDS = (8, 16, 32, 64), (10, 100), 64
SHARDS = 4  # per batch; with weak scaling, per rank


def place_of(gbit):
    return f"{gbit:g} Gbit/s" if gbit else "memory"


def time_alone(points):
    """The time of one rank with one batch, in ms."""
    return next(p["ms"] for p in points if (p["ranks"], p["shards"]) == (1, SHARDS))


def columns(point, jobs, contention, cores):
    """The factors of the coefficients: for each job, a shard, and the rest of a step (Adam), which each rank does in
    full; handling a byte within a machine and over TCP; the bytes' time on the wire; the latency of a message, within
    a machine and over TCP. All but the wire wait for a core if there are fewer cores than ranks, and computing is
    slower by `contention` if another core of this machine computes, too. cores None: each rank has a machine."""
    r, is_remote = point["ranks"], point["gbit"] > 0
    queue = max(1, r / cores) if cores else 1
    slower = queue * (contention if cores and min(r, cores) > 1 else 1)
    megabytes = 2 * (r - 1) / r * point["parameters"] * 4e-6  # sent by each rank
    own = [value for job in jobs for value in ((point["shards"] * slower, slower) if job == point["job"] else (0, 0))]
    handled, messages = megabytes * queue, 4 * (r - 1) * queue
    return own + [handled * (not is_remote), handled * is_remote, megabytes * 8 / point["gbit"] if is_remote else 0,
                  messages * (not is_remote), messages * is_remote]


def solve(matrix, right):
    """Gaussian elimination with pivoting for a small system; a column of zeros gives 0."""
    n = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        if abs(rows[i][i]) < 1e-12:
            rows[i] = [float(k == i) for k in range(n)] + [0.0]
        for k in range(n):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    return [row[n] / row[i] for i, row in enumerate(rows)]


def least_squares(rows, times):
    """The non-negative coefficients with the least sum of squared relative errors."""
    rows = [[value / t for value in row] for row, t in zip(rows, times)]
    free = list(range(len(rows[0])))
    while True:
        scale = {i: sum(row[i] ** 2 for row in rows) ** 0.5 or 1 for i in free}
        normal = [[sum(row[i] * row[k] for row in rows) / scale[i] / scale[k] for k in free] for i in free]
        found = solve(normal, [sum(row[i] for row in rows) / scale[i] for i in free])
        if min(found) >= 0:
            break
        free.remove(free[found.index(min(found))])
    result = [0.0] * len(rows[0])
    for i, value in zip(free, found):
        result[i] = value / scale[i]
    return result


class Model:
    def __init__(self, points, cores):
        self.jobs, self.cores = sorted({p["job"] for p in points}), cores
        times = [p["ms"] for p in points]
        tried = []
        for percent in range(100, 181, 2):
            self.contention = percent / 100
            rows = [columns(p, self.jobs, self.contention, cores) for p in points]
            self.coefficients = least_squares(rows, times)
            tried.append((sum(e * e for e in self.errors(points)), self.contention, self.coefficients))
        _, self.contention, self.coefficients = min(tried)

    def ms(self, point):
        return self.sum(columns(point, self.jobs, self.contention, self.cores))

    def ms_apart(self, point):
        return self.sum(columns(point, self.jobs, self.contention, None))

    def sum(self, values):
        return sum(a * b for a, b in zip(self.coefficients, values))

    def errors(self, points):
        return [self.ms(p) / p["ms"] - 1 for p in points]


def tell_errors(what, model, points):
    errors = [abs(e) for e in model.errors(points)]
    print(f"  {what}: mean {100 * statistics.mean(errors):.1f} %, median {100 * statistics.median(errors):.1f} %, "
          f"largest {100 * max(errors):.1f} %, of {len(points)} points")


def predictions(model, points):
    """(job, is_weak, gbit, ranks): ms, efficiency. Strong: a batch of 64 shards; weak: 4 shards per rank."""
    found = {}
    for job in model.jobs:
        base = next(p for p in points if p["job"] == job)
        for is_weak, gbit, r in itertools.product((False, True), PREDICTED_GBITS, PREDICTED_RANKS):
            whole = SHARDS if is_weak else PREDICTED_SHARDS
            alone = model.ms_apart(base | {"ranks": 1, "gbit": 0, "shards": whole})
            ms = model.ms_apart(base | {"ranks": r, "gbit": gbit, "shards": whole if is_weak else whole / r})
            found[job, is_weak, gbit, r] = ms, alone / ms / (1 if is_weak else r)
    return found


def fit(points, cores):
    """Prints the model, its errors and its predictions, and returns the model and the predictions."""
    split = [p for p in points if not p["weak"]], [p for p in points if p["weak"]]
    few, many = [p for p in points if p["ranks"] <= 2], [p for p in points if p["ranks"] > 2]
    print("\nmodel: relative errors")
    if split[1]:
        tell_errors("fitted on strong scaling, of itself", Model(split[0], cores), split[0])
        tell_errors("fitted on strong scaling, of weak", Model(split[0], cores), split[1])
    if many:
        tell_errors("fitted on 1 and 2 ranks, of more", Model(few, cores), many)
    model = Model(points, cores)
    tell_errors("fitted on all, of itself", model, points)
    c = model.coefficients
    for i, job in enumerate(model.jobs):
        print(f"  {job}: {c[2 * i]:.2f} ms a shard, {c[2 * i + 1]:.2f} ms for the rest of a step")
    local, tcp, wire, message, remote = c[2 * len(model.jobs):]
    print(f"  two cores at once: {model.contention:.2f} times as long; handling a megabyte: {local:.3f} ms within a "
          f"machine, {tcp:.3f} by TCP;\n  on the wire {wire:.2f} times its bits / bandwidth; a message "
          f"{1e3 * message:.0f} us within a machine, {1e3 * remote:.0f} by TCP")
    found = predictions(model, points)
    print(f"\npredicted, with a machine for each rank: efficiency of strong scaling of a batch of {PREDICTED_SHARDS} "
          f"shards | of weak scaling\n  {'':16}" + "".join(f"{f'{r} ranks':>18}" for r in PREDICTED_RANKS))
    for job, gbit in itertools.product(model.jobs, PREDICTED_GBITS):
        cells = [f"{100 * found[job, False, gbit, r][1]:8.0f} % |{100 * found[job, True, gbit, r][1]:4.0f} %"
                 for r in PREDICTED_RANKS]
        print(f"  {job} {gbit:4} Gbit/s " + "".join(f"{cell:>18}" for cell in cells))
    return model, found


def plot(points, model, found, file):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("left out: the plot; install python3-matplotlib")
        return
    figure, axes = pyplot.subplots(2, len(model.jobs), figsize=(4.4 * len(model.jobs), 7.6), squeeze=False)
    colours = {0: "C0", 10: "C1", 100: "C2", 1: "C3"}
    for i, job in enumerate(model.jobs):
        own = [p for p in points if p["job"] == job]
        alone = time_alone(own)
        most = max(p["ranks"] for p in own)
        ideal = [1, min(model.cores, most), most]
        axes[0][i].plot(ideal, [min(r, model.cores) for r in ideal], color="0.7", label="ideal here")
        for gbit in sorted({p["gbit"] for p in own}, key=lambda g: -(g or 99)):
            line = sorted([p for p in own if not p["weak"] and p["shards"] <= SHARDS and
                           (p["gbit"] == gbit or p["ranks"] == 1)], key=lambda p: p["ranks"])
            x, colour = [p["ranks"] for p in line], colours.get(gbit, "C4")
            axes[0][i].plot(x, [alone / p["ms"] for p in line], "o", color=colour, label=place_of(gbit))
            axes[0][i].plot(x, [alone / model.ms(p) for p in line], "--", color=colour)
        axes[0][i].set(title=f"{job}: measured (points), model (dashed)", xlabel="ranks on this machine", xticks=x,
                       ylabel="speed-up, strong scaling", ylim=(0, None))
        for is_weak, gbit in itertools.product((False, True), PREDICTED_GBITS):
            axes[1][i].plot(PREDICTED_RANKS, [100 * found[job, is_weak, gbit, r][1] for r in PREDICTED_RANKS],
                            "--" if is_weak else "-", marker="o", color=colours.get(gbit, "C4"),
                            label=f"{'weak' if is_weak else 'strong'}, {gbit} Gbit/s")
        axes[1][i].set(title=f"{job}: predicted", xlabel="ranks, each on a machine of its own", xscale="log",
                       ylabel="efficiency, %", ylim=(0, 105))
        axes[1][i].set_xticks(PREDICTED_RANKS, [str(r) for r in PREDICTED_RANKS])
        axes[1][i].minorticks_off()
        for row in axes:
            row[i].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
