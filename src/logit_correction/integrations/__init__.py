"""The training behind other libraries' doors: scikit-learn, Lightning, transformers."""
