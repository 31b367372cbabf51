"""Runs the tutorials and shows them.

Each script of docs/tutorials becomes a page, a notebook to download, and the report pages that it wrote. This is a
hook of MkDocs and not the plugin mkdocs-jupyter, because every page of that plugin loads scripts from other hosts and
carries half a megabyte of styles. The running, converting and reading of scripts is nbclient's, nbconvert's and
jupytext's.

What a script gave is kept in ``.cache/tutorials`` under a digest of the script and of the package, so that a second
build runs nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

FOLDER = "tutorials"
#: Seconds that one cell may take.
TIMEOUT = 600
DOWNLOAD = '[Download as a notebook]({name}.ipynb){{ .md-button download="{name}.ipynb" }}\n\n'


class Tutorial(File):
    """A script that is shown as a page."""

    def is_documentation_page(self) -> bool:
        """Say that it becomes a page."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the pages, pictures, notebooks and report pages in place of the scripts."""
    root = Path(config.config_file_path).parent
    scripts = sorted((root / "docs" / FOLDER).glob("*.py"))
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # each waits for a kernel, which is a process of its own
        places = list(threads.map(lambda script: executed(script, root), scripts))
    for script, place in zip(scripts, places, strict=True):
        notebook = read(place / "notebook.ipynb")
        text, pictures = as_markdown(notebook, script.stem)
        uri = f"{FOLDER}/{script.name}"
        old = files.get_file_from_path(uri)
        if old is not None:
            files.remove(old)
        files.append(Tutorial.generated(config, uri, content=text))
        files.append(File.generated(config, f"{FOLDER}/{script.stem}.ipynb", content=as_notebook(script)))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"{FOLDER}/{name}", content=picture))
        for page in sorted((place / "work").glob("*/report.html")):
            uri = f"gallery/{script.stem}-{page.parent.name}.html"
            files.append(File.generated(config, uri, abs_src_path=str(page)))
    return files


def read(path: Path) -> Any:
    """Return the notebook in a file."""
    import nbformat

    return nbformat.read(path, as_version=4)


def parse(script: Path) -> Any:
    """Return a script in jupytext's percent format as a notebook without outputs."""
    import jupytext

    notebook = jupytext.read(script)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def as_notebook(script: Path) -> str:
    """Return the notebook to download, as text."""
    import nbformat

    return str(nbformat.writes(parse(script)))


def executed(script: Path, root: Path) -> Path:
    """Return the folder that holds the executed notebook and, in ``work``, what it wrote; run it if there is none."""
    place = root / ".cache" / FOLDER / f"{script.stem}-{digest(script, root)}"
    if (place / "notebook.ipynb").is_file():
        return place
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    for former in place.parent.glob(f"{script.stem}-*"):
        shutil.rmtree(former)
    (place / "work").mkdir(parents=True)
    notebook = parse(script)
    client = NotebookClient(notebook, timeout=TIMEOUT, resources={"metadata": {"path": str(place / "work")}})
    try:
        # Kernels that run at the same time share the cores.
        client.execute(env={**os.environ, "OMP_NUM_THREADS": "1"})
    except CellExecutionError as error:
        raise PluginError(f"{script.relative_to(root)} does not run: {error}") from error
    nbformat.write(notebook, place / "writing.ipynb")
    (place / "writing.ipynb").rename(place / "notebook.ipynb")
    return place


def digest(script: Path, root: Path) -> str:
    """Return a digest of the script and of the package that it runs."""
    import logit_correction

    package = Path(logit_correction.__file__).parent
    sources = [path for path in package.rglob("*") if path.suffix in (".py", ".j2", ".css", ".yaml")]
    content = hashlib.sha256()
    for path in [script, *sorted(sources)]:
        content.update(path.read_bytes())
    return content.hexdigest()[:16]


def is_noise(output: Any) -> bool:
    """Return whether an output is a warning of a library or a line of progress, which a page leaves out."""
    progress = output.output_type == "display_data" and "image/png" not in output.data
    return progress or output.get("name") == "stderr"


def as_markdown(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """Return the Markdown of an executed notebook and its pictures by file name.

    Args:
        notebook: The notebook.
        name: Name of the tutorial, with which the pictures' names begin.
    """
    from nbconvert import MarkdownExporter

    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if not is_noise(output)]
    text, resources = MarkdownExporter().from_notebook_node(notebook, {"unique_key": name, "output_files_dir": "."})
    title, rest = text.split("\n", 1)
    pictures = {Path(path).name: data for path, data in resources.get("outputs", {}).items()}
    return f"{title}\n\n{DOWNLOAD.format(name=name)}{rest}", pictures
