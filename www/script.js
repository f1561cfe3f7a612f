// Fills in "How this page reached you" with measurements of the browser. Without scripts, the section keeps
// its text; nothing else on the site needs this file.
"use strict";

(function () {
    const list = document.getElementById("arrival");

    function show(name, value) {
        const term = document.createElement("dt");
        const text = document.createElement("dd");

        if (!value) {
            return;
        }
        term.textContent = name;
        text.textContent = value;
        list.append(term, text);
    }

    function milliseconds(value) {
        return value.toFixed(value < 10 ? 2 : 0) + " ms";
    }

    function showTimes(entry) {
        show("Protocol", entry.nextHopProtocol);
        show("Request to first byte", milliseconds(entry.responseStart - entry.requestStart));
        show("Whole response", milliseconds(entry.responseEnd - entry.requestStart));
        show("Body", entry.encodedBodySize ? entry.encodedBodySize + " bytes" : "");
    }

    function showHeaders(response) {
        show("Server", response.headers.get("Server"));
        show("ETag", response.headers.get("ETag"));
        show("Last-Modified", response.headers.get("Last-Modified"));
    }

    function fill() {
        const entry = performance.getEntriesByType("navigation")[0];

        if (!entry || !entry.requestStart) {
            return;
        }
        list.replaceChildren();
        list.hidden = false;
        document.getElementById("arrival-plain").hidden = true;
        showTimes(entry);
        fetch(location.pathname, { method: "HEAD" }).then(showHeaders, function () {});
    }

    if (list) {
        window.addEventListener("load", function () {
            setTimeout(fill, 0); // responseEnd is known once the load event is over
        });
    }
})();
