// Code and wide tables scroll by themselves where a page is narrow: the tab key reaches them.
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".md-typeset pre, .md-typeset__scrollwrap, table.dataframe")) box.tabIndex = 0
})
