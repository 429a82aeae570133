// A browser starts no Worker for a page that it reads from a disk. There a hidden frame takes its place, so that the
// search of the site works without a server. The script of the search knows such a frame by the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inner = frame.contentWindow
      const load = source => new Promise((loaded, failed) => {
        const script = this.inner.document.createElement("script")
        Object.assign(script, { src: source, onload: loaded, onerror: failed })
        this.inner.document.body.appendChild(script)
      })
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inner.importScripts = (...sources) => sources.reduce((last, source) => last.then(() => load(source)), Promise.resolve())
      this.loaded = load(url)
    }
    postMessage(data) {
      this.loaded.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
}
