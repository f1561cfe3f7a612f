/* The style sheet of the HTML report: light and dark as the reader's system is, on paper light. */
#ifndef LOADGEN_REPORT_STYLE_H
#define LOADGEN_REPORT_STYLE_H

#define REPORT_STYLE                                                                               \
    ":root{color-scheme:light dark;--back:#fff;--text:#1d2430;--soft:#5b6675;--rule:#d8dde4;"      \
    "--shade:#eef1f5;--bad:#b42318;--c0:#0072b2;--c1:#c05600;--c2:#00785a;--c3:#7b3fa0;--c4:#"     \
    "a8185b;--c5:#666}\n"                                                                          \
    "@media (prefers-color-scheme:dark){:root{--back:#14181f;--text:#e6e9ee;--soft:#9aa5b4;"       \
    "--rule:#343c48;--shade:#20262f;--bad:#ff8a7a;--c0:#56b4e9;--c1:#f0a43a;--c2:#2fc79b;"         \
    "--c3:#c99bea;--c4:#ff8fc0;--c5:#bbb}}\n"                                                      \
    "@media print{:root{color-scheme:light;--back:#fff;--text:#000;--soft:#444;--rule:#bbb;"       \
    "--shade:#eee;--bad:#900;--c0:#0072b2;--c1:#c05600;--c2:#00785a;--c3:#7b3fa0;--c4:#a8185b;--"  \
    "c5:#666}"                                                                                     \
    "figure,table,dl{break-inside:avoid}}\n"                                                       \
    "*{box-sizing:border-box}\n"                                                                   \
    "body{margin:0 auto;padding:1rem;max-width:66rem;background:var(--back);color:var(--text);"    \
    "font:1rem/1.45 system-ui,sans-serif}\n"                                                       \
    "h1{font-size:1.25rem;margin:.2rem 0;overflow-wrap:anywhere}\n"                                \
    "h2{font-size:1rem;margin:1.5rem 0 .4rem}\n"                                                   \
    "p{margin:.2rem 0}\n"                                                                          \
    ".soft,dt,th,footer{color:var(--soft);font-weight:normal}\n"                                   \
    ".rate{font-size:2rem;font-weight:600;margin:.6rem 0}\n"                                       \
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.6rem 0}\n"       \
    "dd{margin:0;overflow-wrap:anywhere}\n"                                                        \
    ".wide{overflow-x:auto}\n"                                                                     \
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"                          \
    "th,td{padding:.25rem .7rem;text-align:right;white-space:nowrap;"                              \
    "border-bottom:1px solid var(--rule)}\n"                                                       \
    "th:first-child,td:first-child{text-align:left;padding-left:0}\n"                              \
    ".bad{color:var(--bad)}\n"                                                                     \
    ".notes{border-left:3px solid var(--bad);padding:.1rem 0 .1rem .8rem;margin:1rem 0}\n"         \
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));"      \
    "gap:1rem}\n"                                                                                  \
    "figure{margin:.6rem 0 0;min-width:0}\n"                                                       \
    "figcaption{font-weight:600}\n"                                                                \
    ".legend{display:flex;flex-wrap:wrap;gap:0 1rem;font-weight:normal;font-size:.9rem;"           \
    "color:var(--soft)}\n"                                                                         \
    ".legend svg{vertical-align:middle;margin-right:.35rem}\n"                                     \
    ".plot{display:block;width:100%;height:auto}\n"                                                \
    ".axis{fill:var(--soft);font-size:14px}\n"                                                     \
    ".grid{stroke:var(--rule);fill:none}\n"                                                        \
    ".shade{fill:var(--shade)}\n"                                                                  \
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}\n"                                      \
    ".line0{stroke:var(--c0)}.line1{stroke:var(--c1);stroke-dasharray:7 3}"                        \
    ".line2{stroke:var(--c2);stroke-dasharray:2 3}.line3{stroke:var(--c3);"                        \
    "stroke-dasharray:9 3 2 3}.line4{stroke:var(--c4);stroke-dasharray:12 4}"                      \
    ".line5{stroke:var(--c5);stroke-dasharray:4 2}\n"                                              \
    ".bar{fill:none;stroke-width:5;stroke-dasharray:none;opacity:.4}\n"                            \
    "circle.line0,circle.line1,circle.line2,circle.line3,circle.line4,circle.line5{stroke:none}"   \
    "circle.line0{fill:var(--c0)}circle.line1{fill:var(--c1)}circle.line2{fill:var(--c2)}"         \
    "circle.line3{fill:var(--c3)}circle.line4{fill:var(--c4)}circle.line5{fill:var(--c5)}\n"

#endif
