"""Tables, figures and the report page; everything here is made from run folders, without a model."""
