// A page that is opened as a file may start no worker, and the search is one: here an iframe runs its script. The theme
// would fetch a script for this; it does not where a file of this name is there.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => setTimeout(() => this.onmessage?.({ data: structuredClone(data) }));
      const script = Object.assign(inner.document.createElement("script"), { src: url });
      this.loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      inner.document.body.append(script);
    }

    async postMessage(data) {
      await this.loaded;
      const inner = this.frame.contentWindow;
      inner?.dispatchEvent(new inner.MessageEvent("message", { data: structuredClone(data) }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
