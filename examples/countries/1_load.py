import pandas as pd
df = pd.read_csv("countries.csv")
print(len(df), "rows;", "areas and populations are text:", *df.dtypes.astype(str))
df.head(4)
