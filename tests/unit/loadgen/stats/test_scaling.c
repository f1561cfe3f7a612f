/* Fits of the scalability law to its own values, and zones of known curves. */
#include "common/macros.h"
#include "loadgen/stats/scaling.h"
#include "tests/test.h"

#include <math.h>

static const double loads[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};

enum { LOADS = ARRAY_LENGTH(loads) };

static void fill(const struct usl *law, double ripple, struct usl_point *points)
{
    for (size_t i = 0; i < LOADS; i++)
        points[i] = (struct usl_point){loads[i], usl_throughput(law, loads[i]) *
                                                     (1 + (i % 2 ? ripple : -ripple))};
}

static bool is_near(double value, double expected)
{
    return fabs(value - expected) <= 1e-6 * fmax(1, fabs(expected));
}

/* With contention and coherency, one of them, and neither. */
TEST(fit_recovers_exact_parameters)
{
    static const struct usl laws[] = {
        {.lambda = 995.6, .sigma = 0.0267, .kappa = 0.000769}, /* Gunther's example */
        {.lambda = 1000, .sigma = 0.05, .kappa = 0},
        {.lambda = 20000, .sigma = 0, .kappa = 0.0001},
        {.lambda = 3, .sigma = 0, .kappa = 0},
        {.lambda = 50000, .sigma = 1, .kappa = 0},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(laws); i++) {
        struct usl_point points[LOADS];
        struct usl usl;

        fill(&laws[i], 0, points);
        assert_true(usl_fit(points, LOADS, &usl));
        assert_true(is_near(usl.lambda, laws[i].lambda));
        assert_true(is_near(usl.sigma, laws[i].sigma));
        assert_true(is_near(usl.kappa, laws[i].kappa));
        assert_true(usl.error < 1e-6);
        assert_true(usl_is_good(&usl));
    }
}

TEST(peak_is_infinite_without_coherency)
{
    const struct usl both = {.lambda = 995.6, .sigma = 0.0267, .kappa = 0.000769},
                     contention = {.lambda = 1000, .sigma = 0.05}, free_of_both = {.lambda = 10},
                     all_wait = {.lambda = 10, .sigma = 1.5, .kappa = 1};

    assert_true(fabs(usl_peak_n(&both) - 35.576252) < 1e-6);
    assert_true(fabs(usl_peak_throughput(&both) - 12345.116) < 0.001);
    assert_true(isinf(usl_peak_n(&contention)) && is_near(usl_peak_throughput(&contention), 20000));
    assert_true(isinf(usl_peak_n(&free_of_both)) && isinf(usl_peak_throughput(&free_of_both)));
    assert_true(usl_peak_n(&all_wait) == 1 && usl_peak_throughput(&all_wait) == 10);
}

/* With 3 % of noise the parameters stay close, and usl.error shows the noise. */
TEST(fit_tolerates_noise)
{
    const struct usl law = {.lambda = 1000, .sigma = 0.03, .kappa = 0.0005};
    struct usl_point points[LOADS];
    struct usl usl;

    fill(&law, 0.03, points);
    assert_true(usl_fit(points, LOADS, &usl));
    assert_true(fabs(usl.sigma / law.sigma - 1) < 0.2 && fabs(usl.kappa / law.kappa - 1) < 0.2);
    assert_true(usl.error > 0.02 && usl.error < 0.04);
    assert_true(usl.r2 > 0.98 && usl.r2 <= 1);
    assert_true(usl_is_good(&usl));
}

TEST(bad_fit_is_rejected)
{
    static const struct usl_point zigzag[] = {{1, 100},   {2, 900},  {5, 150},
                                              {10, 2000}, {20, 300}, {50, 1500}};
    const struct usl law = {.lambda = 1000, .sigma = 0.03, .kappa = 0.0005};
    struct usl_point points[LOADS];
    struct usl usl;

    assert_true(usl_fit(zigzag, ARRAY_LENGTH(zigzag), &usl));
    assert_true(usl.error > USL_ERROR_MAX);
    assert_false(usl_is_good(&usl));
    fill(&law, 0, points);
    assert_true(usl_fit(points, 4, &usl));
    assert_false(usl_is_good(&usl));
    assert_false(usl_fit(points, 0, &usl));
}

struct curve {
    double x[LOADS], errors[LOADS];
    const char *zones; /* the zone of each point: l, p, o */
    size_t best;
    double knee; /* 0: none */
};

static const struct curve curves[] = {
    /* In proportion up to 20, then flat. */
    {{100, 200, 500, 1000, 2000, 2000, 1990, 1995, 1950}, {0}, "LLLLPPPPP", 4, 20},
    /* Flat from the first point. */
    {{980, 990, 1000, 995, 1000, 990, 985, 1000, 999}, {0}, "PPPPPPPPP", 2, 1000.0 / 980},
    /* Overload after the maximum; a dip within the plateau belongs to it. */
    {{100, 200, 480, 950, 1000, 850, 960, 700, 300}, {0}, "LLLPPPPOO", 4, 10},
    /* It still rises at the end. */
    {{100, 200, 500, 1000, 1900, 4500, 8000, 15000, 30000}, {0}, "LLLLLLLLL", 8, 0},
    /* The same throughput with errors. */
    {{100, 200, 500, 900, 1000, 1000, 1000, 1000, 990},
     {0, 0, 0, 0, 0, 0, 0, 5, 50},
     "LLLPPPPOO",
     4,
     10},
    /* No throughput. */
    {{0}, {100, 100, 100, 100, 100, 100, 100, 100, 100}, "LLLLLLLLL", 0, 0},
};

TEST(zones_follow_the_shape_of_the_curve)
{
    for (size_t i = 0; i < ARRAY_LENGTH(curves); i++) {
        struct zone_point points[LOADS];
        enum zone of[LOADS];
        struct zones zones;
        char letters[LOADS + 1] = "";

        for (size_t k = 0; k < LOADS; k++)
            points[k] = (struct zone_point){loads[k], curves[i].x[k], curves[i].errors[k], NAN};
        zones = zones_find(points, LOADS, of);
        for (size_t k = 0; k < LOADS; k++)
            letters[k] = "-LPO"[of[k]];
        assert_string_equal(letters, curves[i].zones);
        assert_int_equal(zones.best, curves[i].best);
        assert_int_equal(zones.reached, curves[i].knee > 0);
        if (zones.reached)
            assert_true(is_near(zones.knee, curves[i].knee));
        else
            assert_true(isnan(zones.knee));
    }
}

TEST(few_points_have_no_plateau)
{
    static const struct zone_point two[] = {{10, 1000, 0, NAN}, {100, 1050, 0, NAN}};
    enum zone of[2];

    assert_false(zones_find(two, 1, of).reached);
    assert_true(zones_find(two, 2, of).reached);
    assert_int_equal(of[0], ZONE_PLATEAU);
    assert_true(is_near(zones_find(two, 2, of).knee, 10.5));
}

TEST(overload_must_be_significant)
{
    struct zone_point points[] = {{1, 100, 0, 110}, {10, 1000, 0, 1050}, {50, 850, 0, 900}};
    enum zone of[3];

    zones_find(points, 3, of);
    assert_int_equal(of[2], ZONE_PLATEAU);
    points[2].high = 899;
    zones_find(points, 3, of);
    assert_int_equal(of[2], ZONE_OVERLOAD);
    points[2].high = 2000;
    points[2].errors = 2;
    zones_find(points, 3, of);
    assert_int_equal(of[2], ZONE_OVERLOAD);
}
