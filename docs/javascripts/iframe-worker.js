// Browsers start no workers for pages that are opened as files. The search needs one: a hidden frame does its work there.
(function () {
  "use strict";
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
      this.frame = frame;
      window.addEventListener("message", (event) => {
        if (event.source !== frame.contentWindow) return;
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      });

      const inside = frame.contentWindow;
      const script = (source) =>
        new Promise((done, failed) => {
          const element = inside.document.createElement("script");
          element.src = source;
          element.onload = done;
          element.onerror = () => failed(new Error("cannot load " + source));
          inside.document.body.appendChild(element);
        });
      // Inside, a worker's words mean what they mean in a worker.
      const receive = inside.postMessage.bind(inside);
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => script(source)), Promise.resolve());
      const outwards = inside.document.createElement("script");
      outwards.textContent = 'postMessage = (data) => parent.postMessage(data, "*");';
      inside.document.body.appendChild(outwards);
      this.ready = script(address);
      this.send = (data) => receive(data, "*");
    }

    postMessage(data) {
      this.ready.then(() => this.send(data));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
