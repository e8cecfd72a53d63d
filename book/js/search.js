// Search without a server: the index is a script and loads from file://, but a browser refuses to
// fetch the found pages for their first lines. So the results come without them there.

export function searchLocally() {
  if (window.location.protocol !== "file:") return;
  if (typeof DOCUMENTATION_OPTIONS !== "undefined") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
